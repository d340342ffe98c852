#!/bin/sh
# install-deps.sh SET... - put the Debian packages of a set on this machine.
#
#   build   what the library, the command and the SQLite store need
#   redis, zookeeper, etcd, postgres, mysql, odbc
#           the same, and what that driver needs; without it a build leaves the
#           driver out
#   bench   the same, and what ./bench compares with on servers
#   check   all of these, and what ./check runs
#   fuzz    the same, and clang's fuzzer
#
# Looks for each tool itself, not for its package, so that a machine which has
# its own cmake or compiler is left alone; says in one line what it installs
# and is silent when nothing is missing.  No server is started by a package's
# set-up: policy-rc.d says no while apt runs, and is put back as it was; nor
# does PostgreSQL's make a cluster.
# HF_APT_LOG names the file that gets apt's output; else it goes to stderr.
set -u

say() { printf 'holdfast: %s\n' "$1" >&2; }
die() { say "$1"; exit 69; }

missing=
# need PACKAGE PROBE: a probe with a slash is a file, else a command.
need()
{
    case $2 in
    */*) [ -e "$2" ] && return ;;
    *) command -v "$2" >/dev/null 2>&1 && return ;;
    esac
    missing="$missing $1"
}

need_build()
{
    # cc may be gcc or clang; libc6-dev comes with either only as a
    # recommendation, so that it is asked for by itself.
    need gcc cc
    need libc6-dev /usr/include/stdlib.h
    need cmake cmake
    command -v make >/dev/null 2>&1 || need ninja-build ninja
    need libsqlite3-dev /usr/include/sqlite3.h
}

need_redis()
{
    need_build
    need libssl-dev /usr/include/openssl/ssl.h
}

need_zookeeper()
{
    need_build
    need libssl-dev /usr/include/openssl/ssl.h
}

need_etcd()
{
    need_build
    need pkg-config pkg-config
    need libssl-dev /usr/include/openssl/ssl.h
    need libnghttp2-dev /usr/include/nghttp2/nghttp2.h
}

need_postgres()
{
    need_build
    need pkg-config pkg-config
    need libpq-dev /usr/include/postgresql/libpq-fe.h
}

need_mysql()
{
    need_build
    need pkg-config pkg-config
    need libmariadb-dev /usr/include/mariadb/mysql.h
}

need_odbc()
{
    need_build
    need pkg-config pkg-config
    need unixodbc-dev /usr/include/sqlext.h
}

# Servers, their clients, and the ODBC drivers of all three.
need_databases()
{
    need_postgres
    need_mysql
    need_odbc
    need postgresql /usr/lib/postgresql/*/bin/postgres
    need mariadb-server mariadbd
    need odbc-postgresql /usr/lib/*/odbc/psqlodbcw.so
    need odbc-mariadb /usr/lib/*/odbc/libmaodbc.so
    need libsqliteodbc /usr/lib/*/odbc/libsqlite3odbc.so
}

# Servers of consensus, and other clients of theirs.  ZooKeeper is Java, of
# which its library is enough: the package `zookeeper` wants a JRE with windows.
# The JDK compiles the peer that uses Curator.
need_quorums()
{
    need_zookeeper
    need_etcd
    need default-jdk-headless javac
    need libzookeeper-java /usr/share/java/zookeeper.jar
    need libcurator-recipes-java /usr/share/java/curator-recipes.jar
    need python3-kazoo /usr/lib/python3/dist-packages/kazoo
    need etcd-server etcd
    need etcd-client etcdctl
}

need_check()
{
    need_redis
    need_databases
    need_quorums
    need pgbouncer pgbouncer
    need python3-psycopg2 /usr/lib/python3/dist-packages/psycopg2
    need python3-pymysql /usr/lib/python3/dist-packages/pymysql
    need ninja-build ninja
    need make make
    need gcc gcc
    need g++ g++
    need python3 python3
    need pkg-config pkg-config
    need clang-14 clang-14
    need clang-format-14 clang-format-14
    need clang-tidy-14 clang-tidy-14
    need sqlite3 sqlite3
    need procps ps
    need spin spin
    need binutils nm
    need redis-server redis-server
    need openssl openssl
    need python3-redis /usr/lib/python3/dist-packages/redis
    need util-linux setpriv
}

need_bench()
{
    need_redis
    need_databases
    need_quorums
    need redis-server redis-server
    need libhiredis-dev /usr/include/hiredis/hiredis.h
    need golang-go go
    need golang-etcd-server-dev \
        /usr/share/gocode/src/go.etcd.io/etcd/clientv3/concurrency
}

need_fuzz()
{
    need_build
    need clang-14 clang-14
    need libclang-rt-14-dev /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux
}

as_root()
{
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 2 ]; then # sudo asks on the terminal, not on stdin
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

policy=/usr/sbin/policy-rc.d
no_cluster=/etc/postgresql-common/createcluster.d/holdfast.conf
made_policy=
made_no_cluster=
forbid_clusters()
{
    [ -e "$no_cluster" ] && return
    as_root mkdir -p "${no_cluster%/*}" &&
        echo 'create_main_cluster = false' |
        as_root tee "$no_cluster" >/dev/null && made_no_cluster=yes
}
forbid_services()
{
    case " $missing " in
    *" postgresql "*) forbid_clusters ;;
    esac
    [ -e "$policy" ] && return
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return
    made_policy=yes
    as_root chmod 755 "$policy"
}
allow_services()
{
    [ -z "$made_policy" ] || as_root rm -f "$policy"
    [ -z "$made_no_cluster" ] || as_root rm -f "$no_cluster"
    made_policy= made_no_cluster=
}

apt()
{
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"${HF_APT_LOG:-/dev/stderr}" 2>&1
}

sets="build, redis, zookeeper, etcd, postgres, mysql, odbc, bench, check, fuzz"
[ $# -gt 0 ] || die "install-deps.sh: say which set: $sets"
for set in "$@"; do
    case $set in
    build | redis | zookeeper | etcd | postgres | mysql | odbc | bench | \
        check | fuzz)
        need_"$set"
        ;;
    *) die "install-deps.sh: no set '$set'; there are $sets" ;;
    esac
done
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
missing=${missing# }
[ -n "${missing% }" ] || exit 0
missing=${missing% }

command -v apt-get >/dev/null 2>&1 ||
    die "please install: $missing (there is no apt-get here to do it)"
if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null 2>&1; then
    die "please run as root: apt-get install $missing (there is no sudo here)"
fi

say "installing $missing"
trap allow_services EXIT
trap 'exit 130' INT TERM HUP
forbid_services
# Lists that are there may be good enough, and then nothing is fetched twice.
# shellcheck disable=SC2086
apt install --no-install-recommends $missing || {
    apt update && apt install --no-install-recommends $missing
} || die "apt-get could not install $missing${HF_APT_LOG:+; see $HF_APT_LOG}"
