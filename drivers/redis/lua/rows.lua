-- rows.lua - entries of a session, a page at a time, or those of one key.
--
-- KEYS: n
-- ARGV: 1 sid ("": of a key), 2 cursor, 3 prefix or key
-- Answers {now, next cursor ("0": done), pid, host, name, row, row, ...}; a row
-- is {key, rid, "g" or "w", sid, mode, places, num, token, age, rest, flag,
-- value}.
local call, Q = redis.call, 0
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local P, sid = KEYS[1]:sub(1, -2), ARGV[1]
--#include lib.lua
local reply = {now, '0', '0', '', ''}
local function add(key, rid, where, record)
    local e = parse(record)
    local ends = end_of(e)
    if ends then
        reply[#reply + 1] = {key, rid, where, e.sid, e.mode, e.places, e.num,
                             e.token, now - e.born, ends - now, e.flag,
                             e.value}
    end
end
if sid == '' then
    local fields = call('HGETALL', P .. 'g:' .. ARGV[3])
    for i = 1, #fields, 2 do
        if fields[i] ~= 'w' then
            add(ARGV[3], fields[i]:sub(-32), 'g', fields[i + 1])
        end
    end
    return reply
end
local E = P .. 'e:' .. sid
local who = call('HMGET', E, '@pid', '@host', '@name')
reply[3], reply[4], reply[5] = who[1] or '0', who[2] or '', who[3] or ''
local page = call('HSCAN', E, ARGV[2], 'COUNT', 100)
reply[2] = page[1]
for i = 1, #page[2], 2 do
    local rid, G = page[2][i], page[2][i + 1]
    local key = G:sub(#P + 3)
    if #rid == 32 and G ~= '' and key:sub(1, #ARGV[3]) == ARGV[3] then
        local _, _, D = key_names(key)
        local _, record = granted_as(G, rid)
        if record then
            add(key, rid, 'g', record)
        else
            record = call('HGET', D, rid)
            if record then
                add(key, rid, 'w', record)
            end
        end
    end
end
return reply
