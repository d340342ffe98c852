/* main.c - the command `holdfast`: which verb, and help.
 *
 * Each verb is a `struct command` in its own file; this one finds it.  Before
 * anything else it makes sure that descriptors 0, 1 and 2 are open: a lock
 * file that became stderr would be written into. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "full.h"
#include "say.h"

static const struct command *const commands[] = {
    &command_run,   &command_hold,   &command_ls,  &command_show,
    &command_break, &command_doctor, &command_ddl, &command_version};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int print_help(void)
{
    struct text out = {0};
    text_put(&out,
             "usage: holdfast COMMAND [options] ...\n"
             "\n"
             "Locks that hold across processes and machines.\n"
             "\n"
             "  holdfast run nightly -- ./report.sh   one report at a time\n"
             "  holdfast ls                           who holds what\n"
             "\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        text_format(&out, "  %-8s  %s\n", commands[i]->name,
                    commands[i]->summary);
    text_put(&out,
             "\n"
             "'holdfast help COMMAND' teaches each.  The store is --url, or\n"
             "$HOLDFAST_URL, or a file in your state folder "
             "(~/.local/state/holdfast).\n");
    return say_output(&out);
}

static int print_command_help(const char *name)
{
    struct text out = {0};
    const struct command *c = find_command(name);
    if (c == NULL)
        return say_usage("", "unknown command '%s'", name);
    text_put(&out, c->help);
    return say_output(&out);
}

static bool is_word(const char *word, const char *a, const char *b,
                    const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return STATUS_SYSTEM;
    full_argv = argv;
    if (argc < 2)
        return say_usage("", "no command");
    if (is_word(argv[1], "help", "--help", "-h"))
        return argc > 2 ? print_command_help(argv[2]) : print_help();
    if (is_word(argv[1], "version", "--version", "-V"))
        return command_version.main(argc - 1, argv + 1);
    const struct command *c = find_command(argv[1]);
    if (c == NULL)
        return say_usage("", "unknown command '%s'", argv[1]);
    return c->main(argc - 1, argv + 1);
}
