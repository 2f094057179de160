--- Makes each single allocation of a piece of code fail, one run after the other.
---
---     require("memory").sweep [[
---         local json = require "ponder.json"
---         return function() json.decode("[1,2,3]") end
---     ]]

local shell = require "shell"
local size = require "size"

local memory = {}

---Runs `code` with allocation 1, 2, 3, ... failing until it succeeds: once with that one
---allocation failing, once with all from there on. Raises for any outcome but success and "not
---enough memory", and for memory and descriptors that are left when the state has been closed.
---@param code string a chunk that returns the function to run; loading it is not part of the test
---@param step? integer fail only every step-th allocation, if there are many; default 1. All in
---make soak, and a third of these in make asan
---@return integer allocations how many the function made when none failed
function memory.sweep(code, step)
    shell.build "failing_memory.so"
    step = step and size { test = step, asan = 3 * step, full = 1 } or 1
    local attempt = require("failing_memory").attempt
    local total
    attempt(package.path, package.cpath, code, 0) -- what stays open for the process is open now
    for _, lasting in ipairs { true, false } do
        local nth = 1
        repeat
            local outcome, allocations, leaked, descriptors =
                attempt(package.path, package.cpath, code, nth, lasting)
            if outcome ~= "ok" and not outcome:find("not enough memory", 1, true) then
                error(("allocation %d failing: %s"):format(nth, outcome), 2)
            elseif leaked ~= 0 then
                error(("allocation %d failing: %d bytes leaked"):format(nth, leaked), 2)
            elseif descriptors > 0 then
                error(("allocation %d failing: %d descriptors leaked"):format(nth, descriptors), 2)
            end
            total = allocations
            nth = nth + step
        until nth > allocations + 1 and outcome == "ok"
    end
    return total
end

return memory
