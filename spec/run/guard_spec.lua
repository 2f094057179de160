-- What the executable forbids scripts to do with Lua's own library.

local shell = require "shell"

local function out(code, input)
    return (shell.printed({ "-e", code }, { input = input }):gsub("\n$", ""))
end

describe("binary Lua code", function()
    local BINARY = "local binary = string.dump(function() return 1 end) "

    for _, call in ipairs {
        "load(binary)", "load(binary, 'x')", "load(binary, 'x', 'b')", "load(binary, 'x', 'bt')",
        "load(binary, 'x', nil, {})", "load(function() local b = binary binary = nil return b end)",
        "loadfile(name)", "loadfile(name, 'b')", "loadfile(name, 'bt', {})", "pcall(dofile, name)",
    } do
        it("is refused by " .. call, function()
            local text = out(BINARY .. [[
                local name = os.tmpname()
                local file = io.open(name, "wb")
                file:write(binary)
                file:close()
                local chunk, message = ]] .. call .. [[
                os.remove(name)
                print(not chunk, message)]])
            assert.matches("^true\t.*binary", text)
        end)
    end

    it("is refused as a script, with a one-line message", function()
        local dir <close> = shell.directory { ["b.lua"] = string.dump(function() end) }
        local refusal = ": binary Lua code is refused; expected source text\n"
        local r = dir:ponder { "b.lua" }
        assert.equal("ponder: b.lua" .. refusal, r.err)
        assert.equal(1, r.status)
        r = shell.ponder({ "-" }, { input = dir:read("b.lua") })
        assert.equal("ponder: stdin" .. refusal, r.err)
        assert.equal(1, r.status)
    end)

    it("is refused, and nothing else", function()
        assert.equal("3\t7\tnil\t5", out [[
            local env = { x = 7 }
            print(load("return 3")(), load("return x", "n", "t", env)(),
                (load("return", "n", "b")), load(coroutine.wrap(function()
                    coroutine.yield "return " coroutine.yield "5" end))())]])
        local dir <close> = shell.directory { ["a.lua"] = "local task = require 'ponder.task' "
            .. "task.sleep(0.001) return ..., x" }
        assert.equal("nil\tnil", out(("print(dofile(%q))"):format(dir.path .. "/a.lua")))
        assert.equal("1\t2", out(("print(loadfile(%q, 't', { x = 2, require = require })(1))")
            :format(dir.path .. "/a.lua")))
        assert.equal("4", out("print(dofile())", "return 4"))
    end)
end)

describe("files that a script has open", function()
    it("are not inherited by child processes", function()
        assert.equal("0\t0", out [[
            local a, b = io.tmpfile(), io.open("/etc/hosts")
            local process = require "ponder.process"
            local seen = process.run { command = { "ls", "-l", "/proc/self/fd" } }.stdout
            print(select(2, seen:gsub("deleted", "")), select(2, seen:gsub("/etc/hosts", "")))]])
    end)
end)
