--- The longest Collatz sequence that begins below a million: work for any number of machines.
---
---     redis-server --appendonly yes                                 one machine that all reach
---     ponder work redis://host --script scripts/many_machines.lua   on each machine
---     ponder run scripts/many_machines.lua redis://host [BELOW]     the program that has the work
---
--- Workers take the functions that this file returns; run as a program, it calls one of them for
--- each part of the range. Whatever is killed meanwhile, the answer is the same. More: `ponder help
--- machines`.

local jobs = {}

--- Among first, first + 1, ..., last: the number with the longest sequence, and how long it is.
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

local url, below = ...
if type(url) ~= "string" then
    return jobs -- for a worker
end

local queue = require "ponder.queue"

local SIZE = 20000
local parts, limit = {}, tonumber(below) or 1000000
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
print(("%d: %d steps"):format(best.number, best.steps))
