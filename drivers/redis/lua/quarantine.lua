-- quarantine.lua - has this server forgotten?  (safety of strict namespaces)
--
-- EPOCH is a word of the call: '' where the namespace is not strict,
-- else the server's run_id as the connection was told it and the longest lease.
-- With the replication id of this very moment it is the epoch: it changes when
-- the server was restarted or promoted.  A new one means that holds may be
-- forgotten that their owners still believe in: until the longest of them has
-- ended nothing is granted.
local RUN, LONGEST = EPOCH:match('^(%x+) (%d+)$')
local Q = 0
if RUN then
    local epoch = RUN ..
                  call('INFO', 'replication'):match('master_replid:(%x+)')
    local marker = call('HMGET', P .. 'n', 'epoch', 'until')
    if marker[1] ~= epoch then
        marker[2] = now + LONGEST
        call('HSET', P .. 'n', 'epoch', epoch, 'until', marker[2])
    end
    Q = tonumber(marker[2])
    if Q <= now then
        Q = 0
    end
end
