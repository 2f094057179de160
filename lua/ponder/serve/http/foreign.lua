--- JSON that others send: clients, servers of tools, untrusted scripts.

local json = require "ponder.json"

local foreign = {}

-- A value may take this much memory, and this many times its text: a list of small messages takes 8
-- times its text, one of empty lists 24 times.
local FREE_BYTES = 2 << 20
local PER_BYTE = 4

---The value of a text that somebody else has sent. NaN and numbers out of range, which JSON lacks
---and which could not be sent back or logged, are refused.
---@return any value nil on failure
---@return "BAD_JSON"|"TOO_DEEP"|"TOO_LARGE"? code TOO_LARGE: it takes too much memory for its text
function foreign.decode(text)
    return json.decode(text, { finite = true,
        max_memory_bytes = FREE_BYTES + PER_BYTE * #text })
end

return foreign
