/* list.h - an intrusive doubly linked ring; the head is a node of its own. */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hf__node {
    struct hf__node *prev, *next;
} hf__node;

#define HF_CONTAINER(ptr, type, member)                                        \
    ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void hf__list_init(hf__node *head)
{
    head->prev = head->next = head;
}

static inline bool hf__list_empty(const hf__node *head)
{
    return head->next == head;
}

static inline void hf__list_append(hf__node *head, hf__node *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline bool hf__list_linked(const hf__node *node)
{
    return node->next != NULL;
}

/* Unlinks; a node that is in no list stays in none. */
static inline void hf__list_remove(hf__node *node)
{
    if (node->next) {
        node->prev->next = node->next;
        node->next->prev = node->prev;
        node->prev = node->next = NULL;
    }
}

static inline hf__node *hf__list_first(const hf__node *head)
{
    return head->next == head ? NULL : head->next;
}

#define HF_LIST_EACH(node, head)                                               \
    for (hf__node *node = (head)->next, *node##_next = node->next;             \
         node != (head); node = node##_next, node##_next = node->next)

#endif
