/* main.c - a program outside the source tree that uses the installed library.
 *
 * Takes a lock in the store that its argument names, shows the token and gives
 * it back.  Built by CMakeLists.txt (find_package) or by the Makefile
 * (pkg-config); neither knows where holdfast was built. */
#include <inttypes.h>
#include <stdio.h>

#include <holdfast/holdfast.h>

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "mem:";
    hf_session *s;
    hf_hold *hold;
    hf_error err;

    if (hf_open(&s, url, NULL, &err) != 0) {
        fprintf(stderr, "cannot open %s: %s\n", url, err.text);
        return 1;
    }
    if (hf_lock(s, "/example/installed", NULL, &hold, &err) != 0) {
        fprintf(stderr, "cannot lock: %s\n", err.text);
        hf_close(s);
        return 1;
    }
    printf("holdfast %s holds with token %" PRIu64 "\n", hf_version(),
           hf_hold_token(hold));
    if (hf_release(hold, &err) != 0)
        fprintf(stderr, "cannot release: %s\n", err.text);
    hf_close(s);
    return 0;
}
