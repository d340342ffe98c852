/* redis_url.h - fresh stores on the Redis server that with-redis started. */
#ifndef HF_TEST_REDIS_URL_H
#define HF_TEST_REDIS_URL_H

/* The URL of a store for this target ("redis", "rediss", "redis-unix",
 * "redis-strict", "redis-simple", "redis-spring", "redis-redisson",
 * "sentinel", "sentinel-strict", "sentinel-replicas", "cluster",
 * "cluster-strict", "redlock", "redlock-notoken") that no other test uses;
 * NULL: it is not a target on Redis.  The same arguments in one test give the
 * same store.  The caller's to free. */
char *redis_test_url(const char *target, const char *which, const char *prefix,
                     const char *query);

/* For "redis-strict": end the quarantine in which a namespace begins. */
void redis_test_settle(const char *which);
/* The same for "sentinel-strict". */
void sentinel_test_settle(const char *which);
/* The same for "cluster-strict". */
void cluster_test_settle(const char *which);

#endif
