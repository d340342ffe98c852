/* etcdreply.c - any bytes as a reply of an etcd server, or as a value in it.
 *
 * The first byte says what they are read as: a transaction, a page of keys, a
 * lease, a watch's message, a status, members, alarms, a value, the name of an
 * entry.  Promises: nothing outside of them is read or given out; reading ends;
 * a view of a queue is in the order of its revisions and has none that is not
 * an entry; exactly one is granted of those that exclude each other; a record
 * that is ours, written again, is read as the same; a name, too. */
#include "fuzz.h"

#include "../../drivers/etcd/store.h"

static const char *from, *to; /* the bytes */

static void check_text(etcd_text text)
{
    PROMISE(text.at != NULL);
    PROMISE(text.len == 0 || (text.at >= from && text.at + text.len <= to));
}

static void check_kv(const etcd_kv *kv)
{
    check_text(kv->key);
    check_text(kv->value);
}

/* ---- Queues ---- */

static void check_view(const etcd_view *view)
{
    size_t alone = 0, held = 0;

    for (size_t i = 0; i < view->count; i++) {
        const etcd_entry *entry = &view->entries[i];
        etcd_ahead ahead;
        hf_verdict verdict = etcd_view_judge(view, i, &ahead);

        check_text(entry->suffix);
        check_text(entry->record.value);
        PROMISE(memchr(entry->suffix.at, '/', entry->suffix.len) == NULL);
        PROMISE(entry->name.lease > 0);
        PROMISE(i == 0 || entry->created >= view->entries[i - 1].created);
        PROMISE(verdict == HF_GRANTED || verdict == HF_WAITS);
        PROMISE(verdict == HF_GRANTED || ahead.hash || ahead.leaves);
        held += verdict == HF_GRANTED;
        alone += verdict == HF_GRANTED && view->seats[i].mode == HF_EXCLUSIVE;
    }
    PROMISE(view->count == 0 || held > 0);
    PROMISE(alone <= 1 && (alone == 0 || held == 1));
}

static void read_rows(etcd_rows rows)
{
    etcd_view view = {.count = 0};
    etcd_rows again = rows;
    etcd_kv kv;

    while (etcd_next_row(&rows, &kv)) {
        check_kv(&kv);
        PROMISE(kv.created > 0 && kv.modified > 0);
    }
    if (etcd_read_view(&view, &again, 2) == ETCD_READ)
        check_view(&view);
    hfd_free(view.entries);
    hfd_free(view.seats);
}

static void read_txn(size_t len)
{
    etcd_found found;
    etcd_rows rows;
    etcd_txn txn;
    hf_id rid = {{0}};

    if (!etcd_read_txn(&txn, from, len))
        return;
    PROMISE(txn.revision > 0);
    if (etcd_read_found(&found, &(etcd_txn){.at = txn.at}, &rid) &&
        found.mine.created)
        PROMISE(found.form != 0 && found.record.ours);
    while (etcd_next_rows(&txn, &rows))
        read_rows(rows);
}

static void read_page(size_t len)
{
    etcd_page page;

    if (etcd_read_page(&page, from, len))
        read_rows(page.rows);
}

/* ---- Leases, watches, the cluster ---- */

static void read_lease(size_t len)
{
    etcd_lease lease;
    etcd_text key;

    if (etcd_read_lease(&lease, from, len)) {
        while (etcd_next_key(&lease.keys, &key))
            check_text(key);
    }
}

static void read_watched(size_t len)
{
    etcd_watched watched;
    etcd_event event;

    if (!etcd_read_watched(&watched, from, len))
        return;
    check_text(watched.reason);
    while (etcd_next_event(&watched.events, &event))
        check_text(event.kv.key.at ? event.kv.key : (etcd_text){"", 0});
}

static void read_cluster(size_t len)
{
    pb_reader members = pb_read(from, len), alarms = members;
    etcd_status status;
    etcd_member member;
    uint64_t whose;
    int alarm;

    if (etcd_read_status(&status, from, len)) {
        check_text(status.version);
        check_text(status.error);
    }
    while (etcd_next_member(&members, &member)) {
        check_text(member.name);
        check_text(member.url);
    }
    while (etcd_next_alarm(&alarms, &whose, &alarm))
        ;
}

/* ---- Values and names ---- */

static void read_value(size_t len)
{
    char host[ETCD_WHO_MAX], name[ETCD_WHO_MAX];
    etcd_record record, again;
    hf__buf out = {.data = NULL};

    etcd_read_record(&record, (etcd_text){from, len});
    PROMISE(record.mode <= HF_PERMIT);
    PROMISE(record.ours || record.mode == HF_EXCLUSIVE);
    check_text(record.value);
    check_text(record.who);
    etcd_split_who(record.who, host, sizeof host, name, sizeof name);
    PROMISE(memchr(host, 0, sizeof host) && memchr(name, 0, sizeof name));
    if (!record.ours)
        return;
    etcd_put_record(&out, &record);
    etcd_read_record(&again,
                     (etcd_text){out.data + out.start, hf__buf_len(&out)});
    PROMISE(again.ours && again.mode == record.mode);
    PROMISE(again.places == record.places && again.ttl == record.ttl);
    PROMISE(again.broken == record.broken && again.pid == record.pid);
    PROMISE(memcmp(&again.rid, &record.rid, sizeof again.rid) == 0);
    PROMISE(memcmp(&again.sid, &record.sid, sizeof again.sid) == 0);
    PROMISE(etcd_same_text(again.value, record.value));
    PROMISE(etcd_same_text(again.who, record.who));
    hf__buf_done(&out);
}

/* Not a byte of a name is lost: it is written again as it was. */
static void read_name(size_t len)
{
    static hf_store store; /* without a prefix */
    etcd_text text = {from, len};
    etcd_suffix name;
    etcd_names names;
    etcd_text made;

    if (!etcd_read_suffix(&name, text))
        return;
    etcd_name_entry(&names, &store, "k", 1, name.lease, &name.rid);
    made = name.has_rid ? names.own : names.plain;
    PROMISE(made.len == len + 2 && memcmp(made.at + 2, from, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(size_t) = {
        read_txn,     read_page,  read_lease, read_watched,
        read_cluster, read_value, read_name};
    size_t len = size ? size - 1 : 0;
    char *copy = malloc(len ? len : 1);

    PROMISE(copy != NULL);
    if (len)
        memcpy(copy, data + 1, len);
    from = copy;
    to = copy + len;
    readers[(size ? data[0] : 0) % (sizeof readers / sizeof *readers)](len);
    free(copy);
    return 0;
}
