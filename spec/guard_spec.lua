-- What the executable forbids scripts to do with Lua's own library.

local shell = require "shell"

local function out(code, input)
    local r = shell.ponder({ "-e", code }, { input = input })
    assert.equal("", r.err)
    assert.equal(0, r.status)
    return (r.out:gsub("\n$", ""))
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
        local r = shell.ponder({ "b.lua" }, { cwd = dir.path })
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

describe("debug", function()
    for _, call in ipairs {
        "debug.setmetatable(io.stdout, nil)", "debug.setmetatable(core, {})",
        "debug.setuservalue(core, 1)", "debug.setuservalue(core, nil, 2)",
        "debug.setlocal(0, 1, nil)", "debug.setlocal(-1, 1, nil)", "debug.setlocal(99, 1, nil)",
        "string.gsub('a', 'a', function() debug.setlocal(2, 1, nil) end)",
        "debug.setupvalue(debug.getmetatable(core:node(0)).__index, 1, nil)",
        "debug.setupvalue(string.gmatch('a', 'a'), 3, nil)",
    } do
        it("refuses " .. call, function()
            assert.equal("false\tstring", out([[
                local core = require "ponder.core.search".new({ policy = "bfs", max_depth = 1,
                    max_nodes = 9, batch = 1 }, 1)
                local ok, message = pcall(function() ]] .. call .. [[ end)
                print(ok, type(message))
                assert(core:state(0) == 1)]]))
        end)
    end

    it("works in other respects", function()
        assert.equal("5\t6\t7\t8", out [[
            local a, b = (function()
                local a, b = 1, 2
                debug.setlocal(1, 1, 5)
                return a, b
            end)()
            debug.setupvalue(function() return b end, 1, 6)
            local co = coroutine.create(function() local c = 3 coroutine.yield() return c end)
            coroutine.resume(co)
            debug.setlocal(co, 1, 1, 7)
            debug.setmetatable(0, { __index = { eight = 8 } })
            print(a, b, select(2, coroutine.resume(co)), (0).eight)]])
    end)

    it("returns a copy of the registry", function()
        assert.equal("true\ttrue\tnil", out [[
            local registry = debug.getregistry()
            for name in pairs(registry) do registry[name] = nil end
            print(io.stdout == io.output(), pcall(io.write), debug.getregistry()._LOADED.x)]])
    end)
end)

describe("a file that cannot be opened", function()
    it("for want of descriptors has a message that says what helps", function()
        local dir <close> = shell.directory()
        local script = dir:write("script.lua", [[
            local files = {}
            local file = io.open "/dev/null"
            while file do files[#files + 1] = file file = io.open "/dev/null" end
            print(select(2, io.open "/dev/null"))
            print(select(2, io.popen "true"))
            for _, f in ipairs { io.lines, loadfile, dofile, require } do
                local _, raised, message = pcall(f, f == require and "module" or "/dev/null")
                print(message or raised)
            end
            files[1]:close()
            print((io.open "/dev/null"), (io.open "/none"))]])
        dir:write("module.lua", "")
        local r = shell.run(("ulimit -n 30; exec %s %s >$OUT 2>$ERR"):format(
            shell.quote(shell.executable), shell.quote(script)))
        assert.same({ "", 0 }, { r.err, r.status })
        local hints = select(2, r.out:gsub("Too many open files%)? %(EMFILE: raise `ulimit %-n`%)",
            ""))
        assert.equal(6, hints, r.out)
        assert.matches("\nfile %(0x%x+%)\tnil\n$", r.out)
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
