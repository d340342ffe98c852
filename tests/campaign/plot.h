/* plot.h - planted histories: a handful of records on a clock of milliseconds,
 * and what the rules say to them. */
#ifndef HF_CAMPAIGN_PLOT_H
#define HF_CAMPAIGN_PLOT_H

#include "case.h"

#include <holdfast/holdfast.h>

enum { LEASE = 2000, PLOT_ROOM = 256 };

extern camp_record plot[PLOT_ROOM];
extern size_t lines;
extern camp_counts counted; /* by the last judgement */

int64_t ms(int64_t n);
camp_record *put(camp_kind kind, uint32_t life, uint32_t task, int at);
/* Nothing yet, of a store that promises this. */
void begin(uint64_t promises);
/* Asked, granted, checked at once: held for a lease. */
void grant(uint32_t life, uint32_t task, int asked, int told, uint64_t token);
void give(uint32_t life, uint32_t task, int at, int code);
void refuse(uint32_t life, uint32_t task, int asked, int told, int code,
            uint8_t flags);
void lose(uint32_t life, uint32_t task, int at);
/* A fault that is healed then; 0: never. */
void strike(int fault, int from, int healed);
/* One has it from 10 until it gives it back, then another is told so. */
void in_turn(int given, int asked, int told, uint64_t token);
/* The first invariant that is broken, 0 if none is. */
int judged(void);

#endif
