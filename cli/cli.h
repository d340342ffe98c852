/* cli.h - what every command of `holdfast` shares: its table entry and the
 * exit statuses.  docs/man/holdfast.1.md lists them for users. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <holdfast/holdfast.h>

/* Numbers of <sysexits.h> where it has a fitting one. */
enum status {
    STATUS_OK = 0,
    STATUS_BUSY = 1, /* or what -E says */
    STATUS_USAGE = 64,
    STATUS_UNAVAILABLE = 69,
    STATUS_INTERNAL = 70,
    STATUS_SYSTEM = 71,
    STATUS_CREATE = 73,
    STATUS_WRITE = 74,
    STATUS_LOST = 76,
    STATUS_PERMISSION = 77,
    STATUS_CONFIG = 78,
    STATUS_NOT_RUNNABLE = 126,
    STATUS_NOT_FOUND = 127,
    STATUS_SIGNAL = 128 /* plus its number */
};

struct command {
    const char *name;
    const char *summary;                /* one line for `holdfast --help` */
    const char *help;                   /* all of `holdfast NAME --help` */
    int (*main)(int argc, char **argv); /* argv[0] is the name */
};

extern const struct command command_run, command_hold, command_ls, command_show,
    command_break, command_doctor, command_ddl, command_version;

#endif
