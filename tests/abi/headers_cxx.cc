/* headers_cxx.cc - the public headers as a C++ program sees them.
 *
 * Compiled alone, with every warning and -pedantic, as C++11 and as C++20.  A
 * driver written in C++ must export its entry under the name that the library
 * looks for; check_abi.sh looks at the object for that. */
#include <holdfast/driver.h>
#include <holdfast/holdfast.h>

int use_headers(hf_session *s, int id);
int use_headers(hf_session *s, int id)
{
    hf_lock_options options = hf_lock_options();
    hf_error err = hf_error();
    hf_hold *hold = nullptr;

    options.size = sizeof options;
    options.mode = HF_SHARED;
    options.owner = HF_OWNER_HOLD;
    if (hf_lock(s, "key", &options, &hold, &err) != HF_OK)
        return err.code;
    hf_with_lock(s, &options, &err, "/invoice/pay/%d", id) {
        if (hf_hold_check(hf_held, &err) != 0)
            break;
    }
    return hf_release(hold, &err);
}

static hf_driver make_driver()
{
    hf_driver driver = hf_driver();

    driver.abi = HF_DRIVER_ABI;
    driver.size = sizeof driver;
    return driver;
}

static const hf_driver a_driver = make_driver();
HF_DRIVER_EXPORT(a_driver);
