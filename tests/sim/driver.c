/* driver.c - the driver `sim:`, a door to the simulated network.
 *
 * It claims what the mem driver claims, but for blocking: operations are
 * started here and finished by the network.  A blocking call, as hf_close makes
 * them, lets the world go on until its answer or its deadline has come. */
#include "sim/sim.h"

#include <stdlib.h>

#include "core/registry.h"

static sim_world *world;

const char *sim_op_name(hf_op_kind kind)
{
    static const char *const names[] = {
        "?",       "attach", "renew",   "detach", "join",  "confirm", "leave",
        "recheck", "list",   "publish", "evict",  "probe", "?"};

    return names[kind];
}

static int sim_open(hf_store **ret, const hf_url *url, const hf_host *host,
                    uint32_t *ret_caps, hf_error *err)
{
    hf_store *store = hfd_alloc(sizeof *store);

    (void)url;
    if (!store)
        return hfd_error(err, HF_ENOMEM, "sim", 0, "out of memory");
    store->client = world->cur;
    store->client->store = store;
    store->client->core = host->ctx;
    store->host = *host;
    *ret = store;
    *ret_caps = HF_CAP_FIFO | HF_CAP_TOKEN | HF_CAP_PUSH | HF_CAP_SHARED |
                HF_CAP_PERMIT | HF_CAP_FIXED_LEASE | HF_CAP_VALUE;
    if (world->each)
        *ret_caps = HF_CAP_TOKEN | HF_CAP_FIXED_LEASE | HF_CAP_MARKS |
                    HF_CAP_RUN | HF_CAP_EACH;
    else if (world->marks)
        *ret_caps |= HF_CAP_MARKS | HF_CAP_RUN;
    if (world->clock)
        *ret_caps |= HF_CAP_CLOCK;
    return 0;
}

static void sim_close(hf_store *store)
{
    store->client->store = NULL;
    hfd_free(store);
}

static void sim_abandon(hf_store *store)
{
    (void)store;
}

static void sim_start(hf_store *store, hf_op *op)
{
    sim_net_start(store->client, op);
}

static void sim_drive(hf_store *store, hf_op *op)
{
    if (!op->driven)
        abort(); /* it was started as if nobody would come for it */
    while (sim_net_pending(op))
        sim_run_one(store->client->world, HF_NEVER);
}

static int sim_fd(hf_store *store)
{
    (void)store;
    return -1;
}

static void sim_dispatch(hf_store *store)
{
    (void)store;
}

void sim_net_doubt(sim_client *c)
{
    sim_client *before = sim_enter(c);

    c->store->host.doubt(c->store->host.ctx, HF_EUNAVAIL, "connection lost");
    sim_leave(c, before, true);
}

static const char *const no_options[] = {NULL};
static const hf_driver driver = {
    HF_DRIVER_HEAD,           .name = "sim",
    .schemes = "sim",         .options = no_options,
    .open = sim_open,         .close = sim_close,
    .abandon = sim_abandon,   .start = sim_start,
    .drive = sim_drive,       .fd = sim_fd,
    .dispatch = sim_dispatch,
};

void sim_driver_install(sim_world *w)
{
    world = w;
    hf__registry_add(&driver);
}
