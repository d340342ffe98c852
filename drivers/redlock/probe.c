/* probe.c - placeholder */
#include "redlock.h"
void redlock_probe(hf_store *store, hf_op *op)
{
    (void)store;
    hfd_finish(op, HF_APPLIED, 0);
}
