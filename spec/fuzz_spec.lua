-- The targets of spec/fuzz that are Lua (spec/support/fuzz.lua): the corpus, and some inputs of a
-- fixed seed. `make fuzz` tries more.

local shell = require "shell"

local SANITIZED = shell.executable:find("/asan/", 1, true)
local INPUTS, SLOW_INPUTS = SANITIZED and 60 or 400, SANITIZED and 20 or 80

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
