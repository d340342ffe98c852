/* file.c - is this path fit for a database of locks?
 *
 * Refuses what would make locks lie: a symbolic link or a second name (two
 * paths, two side files, one database), a folder, and network file systems,
 * whose locks and shared maps do not reach other machines.  Makes a missing
 * file 0600 itself, since SQLite would make it readable for all.
 *
 * The file is only ever opened here when it is being made: closing a descriptor
 * of it drops SQLite's locks of the whole process. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

typedef struct fs_name {
    uint32_t magic;
    const char *name;
} fs_name;

static const fs_name network_fs[] = {
    {0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"},
    {0xfe534d42, "SMB2"},   {0x01021997, "9p"},     {0x65735546, "FUSE"},
    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x00c36400, "Ceph"},
    {0x7461636f, "OCFS2"},  {0x01161970, "GFS2"},   {0x5346414f, "AFS"},
    {0x6b414653, "kAFS"},   {0x73757245, "Coda"},   {0x564c, "NCP"},
    {0x20030528, "PVFS2"},  {0xaad7aaea, "PanFS"},  {0x19830326, "BeeGFS"},
    {0x786f4256, "vboxsf"}, {0xbacbacbc, "vmhgfs"}, {0x6a656a63, "virtiofs"},
};

const char *hf__sq_network_fs(const char *path)
{
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof network_fs / sizeof network_fs[0]; i++)
        if (network_fs[i].magic == (uint32_t)fs.f_type)
            return network_fs[i].name;
    return NULL;
}

bool hf__sq_same_file(const hf_store *s)
{
    struct stat st;

    return lstat(s->path, &st) == 0 && st.st_dev == s->dev &&
           st.st_ino == s->ino;
}

static int fail_file(const char *path, int os, hf_error *err)
{
    if (os == ENOSPC || os == EDQUOT)
        return hfd_error(err, HF_EUNAVAIL, "sqlite", os,
                         "the disk is full, '%s' cannot be made: make room and "
                         "try again",
                         path);
    if (os == EMFILE || os == ENFILE || os == ENOMEM)
        return hfd_error(err, HF_EUNAVAIL, "sqlite", os, "cannot open '%s': %s",
                         path, strerror(os));
    return hfd_error(err, HF_EPERM, "sqlite", os,
                     "cannot write '%s': %s; check the modes of file and "
                     "folder",
                     path, strerror(os));
}

/* The folder's real path and the name after it: the folder may be reached
 * through links, and the program may change its own folder later. */
static int make_absolute(hf_store *s, const char *path, hf_error *err)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = slash ? (size_t)(slash - path) : 0;
    int n;

    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return hfd_error(err, HF_EURL, "sqlite", 0,
                         "'%s' names no file: write sqlite:/path/to/locks.db",
                         path);
    if (len >= sizeof folder || strlen(name) > NAME_MAX - 5)
        return hfd_error(err, HF_EURL, "sqlite", ENAMETOOLONG,
                         "the path of the database is too long");
    snprintf(folder, sizeof folder, "%.*s", (int)len, path);
    if (!realpath(slash ? (len ? folder : "/") : ".", real)) {
        int os = errno;

        if (os == ENOENT || os == ENOTDIR)
            return hfd_error(err, HF_EURL, "sqlite", os,
                             "the folder '%s' does not exist: make it first",
                             slash ? folder : ".");
        return fail_file(path, os, err);
    }
    n = snprintf(s->path, sizeof s->path, "%s/%s",
                 strcmp(real, "/") == 0 ? "" : real, name);
    if (n < 0 || (size_t)n >= sizeof s->path - 8)
        return hfd_error(err, HF_EURL, "sqlite", ENAMETOOLONG,
                         "the path of the database is too long");
    snprintf(folder, sizeof folder, "%s", real);
    if (!s->network) {
        const char *fs = hf__sq_network_fs(folder);

        if (fs)
            return hfd_error(err, HF_ENOTSUP, "sqlite", 0,
                             "'%s' is on a network file system (%s): use a "
                             "local disk, or ?network=yes, which polls and "
                             "promises less",
                             s->path, fs);
    }
    return 0;
}

/* Make an empty file, 0600.  Of two threads of this process that want the same
 * path, one must not close its descriptor while the other's SQLite has locks on
 * the file; so making is done one at a time, and only if there was none. */
static int make_file(const hf_store *s, hf_error *err)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    int fd, os = 0;

    pthread_mutex_lock(&making);
    fd = open(s->path,
              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
              0600);
    if (fd < 0)
        os = errno;
    else
        close(fd);
    pthread_mutex_unlock(&making);
    if (os != 0 && os != EEXIST)
        return fail_file(s->path, os, err);
    return 0;
}

/* Judge what stands at the path; ENOENT is left in *ret_missing. */
static int check_file(hf_store *s, bool *ret_missing, hf_error *err)
{
    struct stat st;

    *ret_missing = false;
    if (lstat(s->path, &st) != 0) {
        if (errno != ENOENT)
            return fail_file(s->path, errno, err);
        *ret_missing = true;
        return 0;
    }
    if (S_ISLNK(st.st_mode))
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s' is a symbolic link: name the file itself, so "
                         "that all use one name",
                         s->path);
    if (!S_ISREG(st.st_mode))
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s' is %s, not a file: name a file", s->path,
                         S_ISDIR(st.st_mode) ? "a folder" : "a device");
    if (st.st_nlink > 1)
        return hfd_error(err, HF_EPROTO, "sqlite", 0,
                         "'%s' has %lu names (hard links): keep one, so that "
                         "all use one side file",
                         s->path, (unsigned long)st.st_nlink);
    if (faccessat(AT_FDCWD, s->path, R_OK | W_OK, AT_EACCESS) != 0)
        return fail_file(s->path, errno, err);
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return 0;
}

int hf__sq_locate(hf_store *s, const char *path, hf_error *err)
{
    bool missing;
    int code = make_absolute(s, path, err);

    if (code == 0)
        code = check_file(s, &missing, err);
    if (code == 0 && missing) {
        code = make_file(s, err);
        if (code == 0)
            code = check_file(s, &missing, err);
        if (code == 0 && missing)
            code = hfd_error(err, HF_EUNAVAIL, "sqlite", ENOENT,
                             "'%s' was removed while it was opened; try again",
                             s->path);
    }
    return code;
}
