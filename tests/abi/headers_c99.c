/* headers_c99.c - the public headers as a C99 program sees them.
 *
 * Compiled alone, with every warning and -pedantic, each header first once and
 * then again; uses each initialiser and the scope macro, which only expand
 * where somebody writes them. */
#ifdef DRIVER_FIRST
#include <holdfast/driver.h>
#endif
#include <holdfast/holdfast.h>
#ifndef PUBLIC_ONLY
#include <holdfast/driver.h>
#include <holdfast/holdfast.h>
#endif

int use_headers(hf_session *s, int id);
int use_headers(hf_session *s, int id)
{
    hf_open_options open_options = {HF_OPEN_OPTIONS, .lease_ms = 5000};
    hf_lock_options lock_options = {HF_LOCK_OPTIONS, .wait_ms = HF_FOREVER};
    hf_break_options break_options = {HF_BREAK_OPTIONS, .now = true};
    hf_error err = {.code = 0};
    uint64_t token = 0;

    hf_with_lock(s, &lock_options, &err, "/invoice/pay/%d", id) {
        token = hf_hold_token(hf_held);
        if (token == 7)
            break;
    }
    return (int)(open_options.size + break_options.size + token) + err.code;
}

#ifndef PUBLIC_ONLY
static const hf_driver a_driver = {HF_DRIVER_HEAD, .name = "a"};
HF_DRIVER_EXPORT(a_driver);
#endif
