/* path.h - keys as paths of nodes, and back.  Pure. */
#ifndef HF_DRIVERS_ZOOKEEPER_PATH_H
#define HF_DRIVERS_ZOOKEEPER_PATH_H

#include <stdbool.h>
#include <stddef.h>

enum { ZK_ROOT_MAX = 512 }; /* bytes of a root */

/* Bytes that zk_path_write may need for a key of so many, with its NUL. */
#define ZK_PATH_ROOM(root_len, key_len) ((root_len) + 16 + 3 * (key_len))

/* The node of a key below root ("": the top, where keys that begin with '/' are
 * paths and the others are below ZK_PATH_HOME).  Ends with a NUL; its length.
 */
#define ZK_PATH_HOME "/holdfast"
size_t zk_path_write(char *out, const char *root, size_t root_len,
                     const char *key, size_t len);

/* The key, or the beginning of longer ones, that a path below root stands for.
 * False: of none, since something in it is no escape of ours.  out has room
 * for len + 1 bytes; a NUL is put behind the key. */
bool zk_path_read(char *out, size_t *ret_len, const char *root, size_t root_len,
                  const char *path, size_t len);
/* Is this path the very one that its key is written as? */
bool zk_path_is_key(const char *root, size_t root_len, const char *path,
                    size_t len);

/* May this be the root?  A path as the server wants it, without a slash at its
 * end, not below /zookeeper; "" is one. */
bool zk_path_is_root(const char *root, size_t len);

#endif
