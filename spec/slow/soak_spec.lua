-- The tests of spec/slow/parts at a 100th of their size: memory and counts must meet their targets,
-- times need not. `make soak` runs them whole.

local size = require "size"
local soak = require "soak"


describe("at a 100th of its size", function()
    for _, name in ipairs(soak.names()) do
        local part = soak.size_in_test(name)
        if part then
            (size.SANITIZED and pending or it)(name .. " stays within its bounds", function()
                local lines = {}
                local missed = soak.run(name, { size = part, print = function(line)
                    lines[#lines + 1] = line
                end })
                assert(not missed[1], table.concat(lines, "\n"))
            end)
        end
    end
end)

describe("a soak test", function()
    it("resumes with the step that failed", function()
        local done, fails = {}, true
        local function step(name)
            return { name, function(s)
                done[#done + 1] = name .. (s.keep.figure or "")
                s.keep.figure = 7
                s:report("figure", name == "two" and fails and 2 or 1, "<=", 1)
            end }
        end
        local function run()
            return soak.play("unfinished", { size = 10, steps = { step "one", step "two" } },
                { print = function() end })
        end
        assert.same({ "figure" }, run())
        fails = false
        assert.same({}, run())
        assert.same({ "one", "two7", "two7" }, done)
    end)
end)
