-- The targets of spec/fuzz that are Lua (spec/support/fuzz.lua): the corpus, and some inputs of a
-- fixed seed. `make fuzz` tries more.

local shell = require "shell"
local size = require "size"

local INPUTS = size { test = 400, asan = 60, full = 4000 }
local SLOW_INPUTS = size { test = 80, asan = 20, full = 800 }

describe("fuzzing", function()
    for path in shell.run("exec >$OUT; ls spec/fuzz/*_fuzz.lua").out:gmatch "[^\n]+" do
        local name = path:match "([%w_]+)_fuzz%.lua$"
        it("finds nothing in " .. name, function()
            local file <close> = assert(io.open(path))
            local count = file:read "a":find "slow = true" and SLOW_INPUTS or INPUTS
            local r = shell.ponder { "run", "--no-log", "spec/support/fuzz.lua", name,
                count .. "x", "7" }
            assert.equal(0, r.status, r.err) -- a command line may give a hint
            assert.matches("^" .. name .. ": %d+ inputs, %d+ lines reached", r.out)
        end)
    end
end)
