# fish completion for holdfast: commands, options, and keys of the store.

function __holdfast_keys
    holdfast ls --quiet (commandline -ct) 2>/dev/null |
        sed -n '2,$s/ .*//p' | grep -v "['\$]" | sort -u
end

set -l commands run hold ls show break doctor ddl version help
complete -c holdfast -f
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a run -d 'run a command while holding a lock'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a hold -d 'hold a lock until stdin ends'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a ls -d 'list who holds what, and who waits'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a show -d 'show one lock'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a break -d 'take a lock away from who holds it'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a doctor -d 'is this store fit to hold locks?'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a ddl -d 'print the tables that a database needs'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a version -d 'print the version'
complete -c holdfast -n "not __fish_seen_subcommand_from $commands" -a help -d 'teach a command'
complete -c holdfast -n "__fish_seen_subcommand_from help" -a "run hold ls show break doctor ddl version"
complete -c holdfast -n "__fish_seen_subcommand_from run hold ls show break" -a "(__holdfast_keys)"

complete -c holdfast -s h -l help -d 'teach this command'
complete -c holdfast -l url -x -d 'the store'
complete -c holdfast -l url-file -r -F -d 'read the URL from a file'
complete -c holdfast -l json -d 'for programs'
complete -c holdfast -s q -l quiet -d 'say nothing'
complete -c holdfast -s v -l verbose -d 'say more'

set -l take "__fish_seen_subcommand_from run hold"
complete -c holdfast -n $take -s n -l nonblock -d 'fail rather than wait'
complete -c holdfast -n $take -s w -l wait -x -d 'wait at most so long'
complete -c holdfast -n $take -s s -l shared -d 'with other shared holders'
complete -c holdfast -n $take -s x -l exclusive -d 'alone'
complete -c holdfast -n $take -s E -l conflict-exit-code -x -d 'status when not granted'
complete -c holdfast -n $take -l lease -x -d 'a crash goes unnoticed at most so long'
complete -c holdfast -n $take -l at-most -x -d 'then the lock is lost'
complete -c holdfast -n $take -l at-least -x -d 'keep it so long'
complete -c holdfast -n $take -l slots -x -d 'one of so many places'
complete -c holdfast -n $take -l owner -x -d 'who you are'
complete -c holdfast -n "__fish_seen_subcommand_from run" -s c -l command -x -d 'run by the shell'
complete -c holdfast -n "__fish_seen_subcommand_from run" -s F -l no-fork -d 'replace this process'
complete -c holdfast -n "__fish_seen_subcommand_from run" -s o -l close -d 'do not inherit the lock'
complete -c holdfast -n "__fish_seen_subcommand_from run" -l kill-after -x -d 'from TERM to KILL'
complete -c holdfast -n "__fish_seen_subcommand_from break" -l token -x -d 'only this hold'
complete -c holdfast -n "__fish_seen_subcommand_from break" -l now -d 'do not wait for the holder'
complete -c holdfast -n "__fish_seen_subcommand_from ddl" -a "postgres mysql odbc"
complete -c holdfast -n "__fish_seen_subcommand_from ddl" -l schema -x -d 'of the tables'
complete -c holdfast -n "__fish_seen_subcommand_from ddl" -l prefix -x -d 'of their names'
complete -c holdfast -n "__fish_seen_subcommand_from ddl" -l format -x -d 'of another library'
complete -c holdfast -n "__fish_seen_subcommand_from ddl" -l guard -d 'what refuses an old token'
