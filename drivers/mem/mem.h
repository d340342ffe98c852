/* mem.h - the mem: driver, as the registry names it. */
#ifndef HF_DRIVERS_MEM_MEM_H
#define HF_DRIVERS_MEM_MEM_H

#include <holdfast/driver.h>

extern const hf_driver hf__driver_mem;

#endif
