/* options.c - any option struct, key and handle that a caller could pass.
 *
 * Promises: nothing crashes; what is refused is refused with a code of the
 * list and one line of text; what is granted can be given back once and not
 * twice; a handle that was never ours is not held; nothing stays behind. */
#include "fuzz.h"

#include <holdfast/holdfast.h>

static int refuse_entry(const hf_entry_info *entry, void *user)
{
    (void)entry;
    (void)user;
    return 1;
}

static void check_refusal(int code, const hf_error *err)
{
    PROMISE(code < 0 && strcmp(hf_error_name(code), "HF_EINTERNAL") != 0);
    PROMISE(err->code == code && err->text[0] != '\0');
    PROMISE(memchr(err->text, '\0', sizeof err->text) != NULL);
    PROMISE(strchr(err->text, '\n') == NULL);
}

static size_t take_key(fuzz_input *in, char *key, size_t cap)
{
    size_t len = take_number(in, 1) * (take_byte(in) % 8 == 0 ? 5 : 1);

    if (len >= cap)
        len = cap - 1;
    for (size_t i = 0; i < len; i++)
        key[i] = (char)take_byte(in);
    key[len] = '\0';
    return strlen(key);
}

/* A time: often sensible, sometimes any 64 bits. */
static int64_t take_time(fuzz_input *in)
{
    uint8_t kind = take_byte(in);

    if (kind < 128)
        return 0;
    if (kind < 200)
        return (int64_t)take_number(in, 2);
    return (int64_t)take_number(in, 8);
}

static void take_options(fuzz_input *in, hf_lock_options *opt, uint8_t *value)
{
    uint8_t kind = take_byte(in);

    opt->size = sizeof *opt;
    if (kind % 16 == 1)
        opt->size = take_byte(in);
    opt->wait_ms = take_time(in);
    opt->mode = (hf_mode)(take_byte(in) % (kind % 16 == 2 ? 7 : 3));
    opt->places = (uint32_t)take_number(in, kind % 16 == 3 ? 4 : 1);
    opt->lease_ms = take_time(in);
    opt->at_most_ms = take_time(in);
    opt->owner = take_number(in, kind % 16 == 4 ? 8 : 1);
    if (kind & 16) {
        opt->value = value;
        opt->value_len = take_number(in, kind & 32 ? 2 : 1);
        if (opt->value_len > 2000)
            opt->value_len = 2000;
    }
}

/* Handles are numbers in disguise: any number may come. */
static void poke_handle(uint64_t number)
{
    hf_hold *hold = (hf_hold *)(uintptr_t)number;
    hf_error err;
    char byte;
    size_t len;

    PROMISE(hf_hold_check(hold, &err) != 0);
    PROMISE(hf_release(hold, &err) != 0);
    PROMISE(hf_renew(hold, &err) != 0);
    PROMISE(hf_publish(hold, "x", 1, &err) != 0);
    PROMISE(hf_hold_value(hold, &byte, 1, &len) != 0);
    PROMISE(hf_hold_token(hold) == 0);
    PROMISE(hf_hold_fd(hold) < 0);
    PROMISE(hf_hold_remaining_ms(hold) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t value[2048];
    fuzz_input in = {data, data + size};
    hf_session *s;
    hf_hold *hold = NULL;
    /* Room behind it for a size that claims more. */
    union {
        hf_lock_options opt;
        uint8_t bytes[256];
    } u = {.bytes = {0}};
    hf_error err;
    char key[1200];
    int code;

    PROMISE(hf_open(&s, "mem:", NULL, &err) == 0);
    take_key(&in, key, sizeof key);
    take_options(&in, &u.opt, value);
    code = hf_try_lock(s, key, &u.opt, &hold, &err);
    if (code != 0) {
        check_refusal(code, &err);
    } else {
        PROMISE(strlen(key) >= 1 && strlen(key) <= HF_KEY_MAX);
        PROMISE(hf_hold_check(hold, &err) == 0);
        PROMISE(hf_hold_token(hold) > 0);
        code = hf_release(hold, &err);
        PROMISE(code == 0);
        PROMISE(hf_release(hold, &err) == HF_ENOTHELD);
        poke_handle((uint64_t)(uintptr_t)hold + (take_byte(&in) & 3));
    }
    PROMISE(hf_list(s, NULL, refuse_entry, NULL, &err) == 0);
    poke_handle(take_number(&in, 8));
    hf_close(s);
    return 0;
}
