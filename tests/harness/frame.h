/* frame.h - RESP, as much as a proxy needs of it. */
#ifndef HF_TEST_FRAME_H
#define HF_TEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the frame (command or reply) at the front; 0: not all there. */
size_t frame_size(const char *data, size_t len);
/* The i-th word of a whole command, or of an array of strings; NULL: none. */
const char *frame_word(const char *data, size_t len, size_t i, size_t *ret_len);
bool frame_word_is(const char *data, size_t len, size_t i, const char *text);
size_t frame_words(const char *data); /* how many */

#endif
