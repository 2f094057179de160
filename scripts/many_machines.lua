--- Finds the longest Collatz sequence that begins below a million, on any number of machines.
---
---     redis-server --appendonly yes                                 on one machine
---     ponder work redis://host --script scripts/many_machines.lua   on each worker machine
---     ponder run scripts/many_machines.lua redis://host [BELOW]     the main program
---
--- Workers use the functions that this file returns; the main program calls one of them for each
--- part of the range. The answer is the same even if processes are killed meanwhile. See `ponder
--- help many-machines`.

local jobs = {}

--- The number with the longest sequence among first, first + 1, ..., last, and the length.
function jobs.longest(part)
    local best, most = part.first, 0
    for n = part.first, part.last do
        local steps, at = 0, n
        while at ~= 1 do
            at = at % 2 == 0 and at // 2 or 3 * at + 1
            steps = steps + 1
        end
        if steps > most then
            best, most = n, steps
        end
    end
    return { number = best, steps = most }
end

if type((...)) == "table" then
    return jobs -- for a worker
end

local args = require "ponder.args"
local queue = require "ponder.queue"

local _, operands = args.script("many_machines", { ... }, {}, { operands = 2,
    usage = "many_machines redis://HOST [BELOW]",
    about = "Finds the longest Collatz sequence that begins below a number, on all workers." })
local url, limit = operands[1], math.tointeger(tonumber(operands[2] or 1000000))
if not url or not limit then
    io.stderr:write("many_machines: expected many_machines redis://HOST [BELOW]\n")
    os.exit(2)
end
local SIZE, parts = 20000, {}
for first = 1, limit - 1, SIZE do
    parts[#parts + 1] = { first = first, last = math.min(first + SIZE, limit) - 1 }
end

local q <close> = assert(queue.open(url, { script = arg[0] }))
local results, errors = q:map(parts, "longest", { max_attempts = 3 })

local best = { number = 1, steps = 0 }
for i = 1, #parts do
    if errors[i] then
        error(errors[i].message)
    elseif results[i].steps > best.steps then
        best = results[i]
    end
end
print(best.number .. ": " .. require("ponder.quote").count(best.steps, "step"))
