/* log.h - one hook, four levels; hfd_log in driver.h is how to speak. */
#ifndef HF_BASE_LOG_H
#define HF_BASE_LOG_H

#include <stdbool.h>

#include <holdfast/driver.h>

/* Would a line of this level be heard?  Spares the work of making it. */
bool hf__log_heard(hf_log_level level);

#endif
