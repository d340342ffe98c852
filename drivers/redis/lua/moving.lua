-- moving.lua - is this slot being moved?  In front of every script of a cluster.
--
-- While a slot moves, key by key, its keys lie on two nodes, and a script sees
-- those of one: it would find a key free whose holder is on the other.  The
-- server says nothing about keys that a script does not declare, and ours are
-- found by reading others.  But it judges each command by itself: one that
-- names two keys, of which one exists nowhere, is refused by the node that gives
-- the slot away (that one may be over there already) and by the one that takes
-- it (it may still come), and by no other.  Nothing was written, so the call is
-- sent again until the slot has arrived.  (docs/decisions/0026)
--
-- FIRST is whether the first key exists: who wants to know that need not ask.
local FIRST = redis.pcall('EXISTS', KEYS[1], KEYS[1] .. '!')
if type(FIRST) == 'table' then
    return redis.error_reply('TRYAGAIN the slot is being moved')
end
