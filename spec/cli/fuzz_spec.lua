-- The targets of spec/fuzz: the corpus, and some inputs of a fixed seed. `make fuzz` tries more.

local shell = require "shell"
local size = require "size"

local BUILD = os.getenv "PONDER_BUILD" or "build"
local INPUTS = size { test = 400, asan = 60, full = 20000 }
local SLOW_INPUTS = size { test = 80, asan = 20, full = 4000 }
local CHANGES = size { test = 200, asan = 50, full = 20000 }

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

    for path in shell.run("exec >$OUT; ls spec/fuzz/*_fuzz.c").out:gmatch "[^\n]+" do
        local name = path:match "([%w_]+)_fuzz%.c$"
        it("finds nothing in " .. name, function()
            local program = ("%s/fuzz/%s_replay"):format(BUILD, name)
            local r = shell.run(([[exec >$OUT 2>$ERR; make -s B=%s %s &&
                %s %d spec/fuzz/corpus/%s/*]]):format(BUILD, program, program, CHANGES, name))
            assert.equal(0, r.status, r.err)
            assert.matches("^%d+ inputs, " .. CHANGES .. " changes of each\n$", r.out)
        end)
    end
end)
