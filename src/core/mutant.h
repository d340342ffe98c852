/* mutant.h - planted bugs, to show that the checkers can convict.
 *
 * A build with HF_MUTANTS compiles them in, and tests/sim switches one on; in
 * every other build HF_MUTANT(x) is the constant 0 and nothing is left. */
#ifndef HF_CORE_MUTANT_H
#define HF_CORE_MUTANT_H

#define HF_MUTANT_MAP(X)                                                       \
    X(LEASE_FROM_REPLY, "the lease counts from the reply")                     \
    X(NO_STOP_MARGIN, "the owner goes on until the store's own expiry")        \
    X(LOST_ONLY_BY_STORE, "only the store's word makes a hold lost")           \
    X(RETRY_NEW_RID, "an unanswered join is repeated under a new id")          \
    X(RENEW_AFTER_LOSS, "a late renewal revives a lost session")               \
    X(PUSH_BELIEVED_ALWAYS, "a push is believed after the session's end")      \
    X(FIXED_FROM_PUSH, "a fixed lease is not confirmed after a push")          \
    X(SAME_TOKEN_HANDOVER, "a local hand-over keeps the token")                \
    X(RUN_NOT_RESERVED, "hand-overs go on beyond the reserved run")            \
    X(HANDOVER_WHEN_LOST, "a lost hold is handed over locally")                \
    X(WAKE_DROPPED, "a push does not wake its waiter, and nobody looks")       \
    X(RESOLVER_OFF, "an abandoned join is left in the queue")                  \
    X(CONFIRM_FROM_REPLY, "a fixed lease counts from the reply")               \
    X(FIXED_IGNORES_JUMP, "a fixed lease trusts a clock that jumped")          \
    X(TOMB_FORGOTTEN, "a late attempt finds the door open")                    \
    X(CANCEL_STAYS, "a cancelled request stays in the queue")                  \
    X(LOOK_NOT_REPEATED, "a look without an answer was the last one")          \
    X(UNKNOWN_IS_FAILURE, "an unanswered join is taken for a refusal")         \
    X(DOUBT_LIFTED_EARLY, "a renewal sent before the doubt lifts it")          \
    X(RELEASE_OK_WHEN_LOST, "a release of a lost hold answers 0")              \
    X(EACH_BY_SESSION, "a hold that a renewal left out counts as renewed")     \
    X(AUDIT_OFF, "a reconnect is no reason to look what the store has")        \
    X(PUSH_BY_KEY, "a push for an id that is over is taken for the next one")

#ifdef HF_MUTANTS
typedef enum hf__mutant_id {
    HF_MUTANT_NONE,
#define HF_MUTANT_ENUM(name, text) HF_MUTANT_##name,
    HF_MUTANT_MAP(HF_MUTANT_ENUM)
} hf__mutant_id;
extern int hf__mutant;
#define HF_MUTANT(name) (hf__mutant == HF_MUTANT_##name)
#else
#define HF_MUTANT(name) 0
#endif

#endif
