/* full.c - handing over to the executable that can load drivers.
 *
 * A command that is run for every cron job should cost no more than flock(1),
 * so `holdfast` is linked statically where the system allows: no shared
 * objects to find, map and bind.  Such a program cannot load drivers.  The
 * stores that need none (sqlite:, mem:) are served here; for all others the
 * same command, linked as usual, takes over before anything has begun.
 *
 * It is looked for beside us (a build tree), then where it is installed, even
 * if the whole installation was moved.
 * Without HF_CLI_FULL this *is* that executable. */
#include "full.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "say.h"

char **full_argv;

static const char handed[] = "HOLDFAST_URL_READ";

#ifdef HF_CLI_FULL
/* Try `name`, taken from the folder that we are in. */
static void exec_from_here(const char *name)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) / 2);
    if (n <= 0)
        return;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return;
    slash[1] = '\0';
    strncat(path, name, sizeof(path) / 2 - 1);
    execv(path, full_argv);
}

int full_hand_over(const char *url, bool from_file)
{
    if (url == NULL)
        url = getenv("HOLDFAST_URL");
    if (url == NULL || url[0] == '\0' || strncmp(url, "sqlite:", 7) == 0 ||
        strncmp(url, "mem:", 4) == 0)
        return 0;
    if (from_file && setenv(handed, url, 1) != 0)
        return say_system(errno, "cannot hand over the URL");
    exec_from_here("holdfast-full");
    exec_from_here("../libexec/holdfast/holdfast-full");
    execv(HF_CLI_FULL, full_argv);
    say_system(errno,
               "cannot run '%s', which loads the drivers of other stores",
               HF_CLI_FULL);
    return STATUS_CONFIG;
}

const char *full_handed_url(void)
{
    return NULL; /* whoever hands over comes first */
}
#else
int full_hand_over(const char *url, bool from_file)
{
    (void)url;
    (void)from_file;
    return 0;
}

const char *full_handed_url(void)
{
    static char url[4096];
    const char *found = getenv(handed);

    if (found == NULL)
        return NULL;
    snprintf(url, sizeof(url), "%s", found);
    unsetenv(handed);
    return url;
}
#endif
