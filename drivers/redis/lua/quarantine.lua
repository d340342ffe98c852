-- quarantine.lua - has this server forgotten, or been left alone?  (safety of
-- strict namespaces)
--
-- EPOCH is a word of the call: '' where the namespace is not strict, else the
-- longest lease, how much longer a quarantine is and, where another may be
-- promoted, how many seconds a replica may be silent.  The epoch itself is the
-- replication id of this very moment: a primary draws a new one whenever it is
-- started, also from its own files, and whenever it is promoted.  A new one
-- means that holds may be forgotten that their owners still believe in: until
-- the longest of them has ended nothing is granted.  (Not the run id as the
-- connection was told it: behind a proxy that is another's, and two who were
-- told different ones would begin each other's quarantine for ever.)
--
-- Where another may be promoted a copy of all data that a replica had to take
-- (sync_full) counts as a new epoch, too: it had left and followed somebody
-- else, who may have granted meanwhile, or is new here.  A primary that stood
-- still, was replaced, and is appointed again before it followed anybody has
-- its id still; but whoever counts as its replica then has followed
-- its successor, and nothing is granted without replicas (ALONE).
--
-- ALONE: it wants replicas (min-replicas-to-write), and none was heard for so
-- long: another may have been promoted.  The server itself counts them once a
-- second and goes by the last count when it stood still and goes on; here their
-- silence is measured at this moment.  Nothing is granted or extended then.
--
-- UNTIL: when the last quarantine ended or will end.  Where it has changed the
-- memory is another than before, whether or not the connection is.
local LEASE, LAG, SILENT = EPOCH:match('^(%d+) (%d+) ?(%d*)$')
local Q, ALONE, UNTIL = 0, false, 0
if LEASE then
    local info = call('INFO', 'replication')
    local epoch, LONGEST = info:match('master_replid:(%x+)'), LEASE + LAG
    local marker = call('HMGET', P .. 'n', 'epoch', 'until', 'copies')
    local copies = marker[3] or '0'
    if SILENT ~= '' then
        copies = call('INFO', 'stats'):match('sync_full:(%d+)')
    end
    if marker[1] ~= epoch or (marker[3] or '0') ~= copies then
        marker[2] = now + LONGEST
        call('HSET', P .. 'n', 'epoch', epoch, 'until', marker[2], 'copies',
             copies)
    end
    Q = tonumber(marker[2])
    UNTIL = Q
    if SILENT ~= '' and info:find('min_slaves_good_slaves', 1, true) then
        ALONE = true
        -- One that only copies as yet is shown with a lag of 0.
        for lag in info:gmatch('state=online,[^\r\n]*lag=(%d+)') do
            ALONE = ALONE and tonumber(lag) > tonumber(SILENT)
        end
    end
    if Q <= now then
        Q = ALONE and now + 1000000 or 0
    end
end
