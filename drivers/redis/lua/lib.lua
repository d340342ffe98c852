-- lib.lua - the queue of a key, shared by all scripts of the native format.
--
-- Included after the fast path of a script.  It expects: call (redis.call),
-- now (microseconds of TIME, read once), P (the prefix of all keys) and Q (no
-- grants before that instant; 0: no quarantine).
-- The keys:
--   c          the last number that was drawn
--   n          epoch, until, copies, max: of strict namespaces
--   s          session -> the instant it expires
--   x          sessions that are dead and not yet cleared away
--   t          key -> the next instant at which an entry of it ends by itself
--   l:SID      there while the session lives: lets a join skip the question
--   e:SID      who the session is, its entries (rid -> g:KEY; "" is a tomb),
--              its news (!rid -> reason), @news: how many of them
--   g:KEY      rid -> record of the granted; "w": the summary, see below
--   w:KEY      number -> rid of those who wait;  d:KEY  rid -> their records
-- Whoever finds g:KEY empty finds the key free: as soon as somebody waits, or
-- more than one holds, it also has the field "w" = "T mode places": nothing
-- granted can end before T, and what kind of lock it is (T 0: somebody is due
-- who was not listening).  Entries that an operator broke have the field
-- "b"..rid, released ones that stay closed for a while "c"..rid.
--
-- Order of writes: counter, entry, mark of the grant; scripts are not rolled
-- back, and every beginning of that order is safe.  A session is taken out of
-- `s` before any of its entries goes: a clock that is set back revives nobody.

local EXPIRED, FORCED, NOT_HELD = -10, -12, -41 -- as in holdfast.h

local function key_names(key)
    return P .. 'g:' .. key, P .. 'w:' .. key, P .. 'd:' .. key
end

local function parse(record)
    local sid, mode, places, run, lease, born, ends, num, token, flag, till,
        value = record:match('^(%x+) (%d) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) '
                             .. '(%d+) (%a) (%d+) (.*)$')
    return {sid = sid, mode = mode, places = tonumber(places),
            run = tonumber(run), lease = tonumber(lease),
            born = tonumber(born), ends = tonumber(ends),
            num = tonumber(num), token = tonumber(token), flag = flag,
            till = tonumber(till), value = value}
end

local function record_of(e)
    return string.format('%s %s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %s %.0f ',
                         e.sid, e.mode, e.places, e.run, e.lease, e.born,
                         e.ends, e.num, e.token, e.flag, e.till) .. e.value
end

-- The first of `run` numbers, above all that were drawn before and not below
-- the clock: so a counter that was lost, or is an older copy, repeats nothing.
local function draw(run)
    local old = tonumber(call('GETSET', P .. 'c', now + run - 1) or 0)
    if old < now then
        return now
    end
    call('SET', P .. 'c', old + run)
    return old + 1
end

-- No number up to this one is drawn any more: somebody was granted it.  Answers
-- where the counter stood if one could have been: clock and counter are behind.
local function raise(token)
    if token <= now then
        return false
    end
    local old = tonumber(call('GET', P .. 'c') or 0)
    if old < token then
        call('SET', P .. 'c', token)
    end
    return old < token and old or false
end

local lives = {}
-- When the session ends; false: it is dead (and from now on for ever).
local function alive(sid)
    local ends = lives[sid]
    if ends == nil then
        local score = call('ZSCORE', P .. 's', sid)
        ends = score and tonumber(score) or false
        if ends and ends <= now then
            call('ZREM', P .. 's', sid)
            call('DEL', P .. 'l:' .. sid)
            call('ZADD', P .. 'x', now, sid)
            ends = false
        end
        lives[sid] = ends
    end
    return ends
end

-- Extend it to that instant; l:SID must not outlast it.
local function live_until(sid, ends)
    call('ZADD', P .. 's', ends, sid)
    call('SET', P .. 'l:' .. sid, '1', 'PX',
         string.format('%.0f', math.max(1, math.floor((ends - now) / 1000))))
    lives[sid] = ends
end

-- When a granted entry ends unless renewed; nil: it has.
local function end_of(e)
    local ends = e.ends > 0 and e.ends or alive(e.sid)
    if not ends or ends <= now then
        return nil
    end
    if e.flag == 'b' then
        if e.till <= now then
            return nil
        end
        if e.till < ends then
            ends = e.till
        end
    end
    return ends
end

-- The field and record of a granted entry, broken or not; nil: there is none.
local function granted_as(G, rid)
    for _, field in ipairs({rid, 'b' .. rid}) do
        local record = call('HGET', G, field)
        if record then
            return field, record
        end
    end
end

local function tell_news(sid, rid, reason)
    if not alive(sid) then
        return
    end
    local E = P .. 'e:' .. sid
    if call('HSET', E, '!' .. rid, reason) == 1 then
        call('HINCRBY', E, '@news', 1)
    end
    call('PUBLISH', P .. 'c:' .. sid, 'N ' .. rid .. ' ' .. reason)
end

-- The owner did not give it back himself: he must hear of it, and a join of it
-- that is still under way must find nothing to do.
local function forget(sid, rid, reason)
    if reason and alive(sid) then
        call('HSET', P .. 'e:' .. sid, rid, '')
        tell_news(sid, rid, reason)
    else
        call('HDEL', P .. 'e:' .. sid, rid)
    end
end

-- Drop the granted that have ended: how many are left, of what kind, and the
-- instant before which none of them can end; and whether one was dropped.  all:
-- look even if none is due.
local function count_granted(key, all)
    local G = key_names(key)
    local summary = call('HGET', G, 'w')
    if summary and not all then
        local T, mode, places = summary:match('^(%d+) (%d) (%d+)$')
        if tonumber(T) > now then
            return call('HLEN', G) - 1, mode, tonumber(places), tonumber(T)
        end
    end
    local fields = call('HGETALL', G)
    local count, mode, places, T, own, dropped = 0, nil, 0, nil, nil, false
    for i = 1, #fields, 2 do
        local field = fields[i]
        if field ~= 'w' then
            local e = parse(fields[i + 1])
            local ends = end_of(e)
            if ends then
                count, mode, places = count + 1, e.mode, e.places
                if not T or ends < T then
                    T = ends
                end
                if e.ends > 0 or e.flag == 'b' then
                    own = (not own or ends < own) and ends or own
                end
            else
                dropped = true
                call('HDEL', G, field)
                if e.flag ~= 'c' then
                    forget(e.sid, field:sub(-32), e.flag == 'b' and FORCED
                                             or e.ends > 0 and EXPIRED or nil)
                end
            end
        end
    end
    if own then
        call('ZADD', P .. 't', own, key)
    elseif all then
        call('ZREM', P .. 't', key)
    end
    return count, mode, places, T or 0, dropped
end

-- Write down what is left, so that the next one need not count.
local function summarize(key, count, mode, places, T)
    local G, W = key_names(key)
    if call('EXISTS', W) == 1 then
        if count == 0 then
            local rid = call('ZRANGE', W, 0, 0)[1]
            local e = parse(call('HGET', P .. 'd:' .. key, rid))
            mode, places, T = e.mode, e.places, Q > now and Q or 0
        end
    elseif count < 2 then
        call('HDEL', G, 'w')
        return
    end
    call('HSET', G, 'w', string.format('%.0f %s %.0f', T, mode, places))
end

local function fits(e, count, mode)
    return count == 0 or
           e.mode == mode and (mode == '1' or mode == '2' and count < e.places)
end

-- Mark it granted and tell its session; false: nobody listens there.  It keeps
-- its place then.  me hears it by the reply of this script.
local function grant(key, rid, e, me)
    local G, W, D = key_names(key)
    local waiting = record_of(e)
    e.token = draw(e.run)
    call('HSET', G, rid, record_of(e))
    call('ZREM', W, rid)
    call('HDEL', D, rid)
    if rid == me or call('PUBLISH', P .. 'c:' .. e.sid,
                         string.format('G %s %.0f %.0f', rid, e.token, e.run))
                    > 0 then
        return true
    end
    call('HDEL', G, rid)
    call('HSET', D, rid, waiting)
    call('ZADD', W, e.num, rid)
    return false
end

-- Grant whoever's turn it is, in order; drop the dead on the way.
local function walk(key, me, all)
    local _, W, D = key_names(key)
    local count, mode, places, T = count_granted(key, all)
    local kept, open = 0, Q <= now
    while open do
        local batch = call('ZRANGE', W, kept, kept + 15)
        if #batch == 0 then
            break
        end
        for _, rid in ipairs(batch) do
            local e = parse(call('HGET', D, rid))
            local ends = alive(e.sid)
            if not ends then
                call('ZREM', W, rid)
                call('HDEL', D, rid)
            elseif not fits(e, count, mode) then
                open = false
                break
            elseif grant(key, rid, e, me) then
                count, mode, places = count + 1, e.mode, e.places
                T = T > 0 and T < ends and T or ends
            else
                kept = kept + 1
            end
        end
    end
    summarize(key, count, mode, places, kept > 0 and 0 or T)
end

-- Where it stands: {1, token, run, remaining of its own lease, num, 0},
-- {2, 0, 0, 0, num, time to look} or {3, reason}.
local function answer(sid, key, rid)
    local G, _, D = key_names(key)
    local record = call('HGET', G, rid)
    if record then
        local e = parse(record)
        return {1, e.token, e.run, e.ends > 0 and e.ends - now or 0, e.num, 0}
    end
    record = call('HGET', D, rid)
    if record then
        local T = tonumber((call('HGET', G, 'w') or '0'):match('^%d+'))
        return {2, 0, 0, 0, parse(record).num, T > now and T - now or 1}
    end
    if call('HEXISTS', G, 'b' .. rid) == 1 then
        return {3, FORCED}
    end
    local reason = call('HGET', P .. 'e:' .. sid, '!' .. rid)
    if reason then
        return {3, tonumber(reason)}
    end
    if call('HEXISTS', G, 'c' .. rid) == 1 then
        return {3, NOT_HELD}
    end
    return {3, alive(sid) and NOT_HELD or EXPIRED}
end

-- Remove up to `most` entries of a dead session and pass on what they held;
-- true: none is left.
local function clear_session(sid, most)
    local E = P .. 'e:' .. sid
    local fields = call('HLEN', E) <= most and call('HGETALL', E)
                   or call('HSCAN', E, 0, 'COUNT', most)[2]
    local touched = {}
    for i = 1, #fields, 2 do
        local rid, G = fields[i], fields[i + 1]
        if #rid == 32 and G ~= '' then
            local key = G:sub(#P + 3)
            local _, W, D = key_names(key)
            local field, record = granted_as(G, rid)
            if record then
                if parse(record).ends == 0 then
                    call('HDEL', G, field)
                    touched[key] = true
                end
            elseif call('ZREM', W, rid) == 1 then
                call('HDEL', D, rid)
                touched[key] = true
            end
        end
        call('HDEL', E, rid)
    end
    for key in pairs(touched) do
        walk(key)
    end
    if call('EXISTS', E) == 1 then
        return false
    end
    call('ZREM', P .. 'x', sid)
    return true
end

-- A little of what time has left behind, by whoever comes regularly.
local function sweep()
    for _, sid in ipairs(call('ZRANGEBYSCORE', P .. 's', '-inf', now,
                              'LIMIT', 0, 8)) do
        alive(sid)
    end
    local dead = call('ZRANGE', P .. 'x', 0, 0)[1]
    if dead then
        clear_session(dead, 64)
    end
    for _, key in ipairs(call('ZRANGEBYSCORE', P .. 't', '-inf', now,
                              'LIMIT', 0, 16)) do
        walk(key, nil, true)
    end
end
