/* quorum_url.h - fresh stores on what with-zookeeper and with-etcd started. */
#ifndef HF_TEST_QUORUM_URL_H
#define HF_TEST_QUORUM_URL_H

/* The URL of a store for this target ("zookeeper", "zookeeper-rw",
 * "zookeeper-kazoo", "zookeeper-tls", "zookeeper3", "etcd", "etcd-tls",
 * "etcd-auth", "etcd3") that no other test uses; NULL: it is not a target on
 * these.  The same arguments in one test give the same store.  The caller's to
 * free. */
char *quorum_test_url(const char *target, const char *which, const char *prefix,
                      const char *query);

#endif
