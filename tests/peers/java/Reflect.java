/* Reflect.java - methods that only some versions of a library have. */
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

final class Reflect {
    private Reflect() {
    }

    static Method find(Object on, String name, Class<?>... types) {
        try {
            return on.getClass().getMethod(name, types);
        } catch (NoSuchMethodException older) {
            return null;
        }
    }

    static boolean callIfThere(Object on, String name) {
        Method method = find(on, name);
        if (method == null)
            return false;
        try {
            method.invoke(on);
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
        return true;
    }

    /* Spring's renewLock throws when the lock is not the caller's; null: this
     * version has none. */
    static Boolean renewLock(Object registry, String key) throws Exception {
        Method method = find(registry, "renewLock", Object.class);
        if (method == null)
            return null;
        try {
            method.invoke(registry, key);
            return true;
        } catch (InvocationTargetException refused) {
            System.err.println("renewLock: " + refused.getCause());
            return false;
        }
    }
}
