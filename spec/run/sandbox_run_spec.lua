-- ponder.sandbox: unreviewed programs, within limits.

local confine = require "ponder.core.confine"
local help = require "task_help"
local new_run = require("ponder.run").new
local programs = require "ponder.run.sandbox.program"
local sandbox = require "ponder.sandbox"
local shell = require "shell"
local size = require "size"
local task = require "ponder.task"

local run = sandbox.run

-- Programs here do not reach their time limit unless stated.
local function within(limits)
    limits = limits or {}
    limits.timeout_ms = limits.timeout_ms or 60000
    return limits
end

local function ends(code, program, limits)
    local value, message, got = run(program, within(limits))
    assert.is_nil(value, program)
    assert.equal(code, got, program .. ": " .. tostring(message))
    return message
end

describe("sandbox.run", function()
    it("returns what the program does, copied", function()
        assert.same({ n = 5, 1, 2.5, nil, "x\0y", true },
            table.pack(run "return 1, 2.5, nil, 'x\\0y', true"))
        assert.same({ n = 0 }, table.pack(run ""))
        assert.same({ a = { 1, 2, { b = false } }, [2.5] = "x" },
            run "return { a = { 1, 2, { b = false } }, [2.5] = 'x' }")
        assert.equal("integer", math.type(run "return 1"))
        assert.equal("float", math.type(run "return 1.0"))
        local long = ("x"):rep(1000)
        assert.same({ long, long }, run "local s = ('x'):rep(1000) return { s, s }")
    end)

    it("keeps shared tables shared", function()
        local value = run "local t = { 1 } for _ = 1, 60 do t = { t, t } end return t"
        assert.equal(value[1], value[2])
        local shared = { 7 }
        assert.is_true(run("return a == b and a[1] == 7", { globals = { a = shared, b = shared } }))
    end)

    it("copies globals in, and nothing back", function()
        local numbers = { 1, 2, 3, name = "n" }
        assert.equal(6, run([[local n = 0 for _, x in ipairs(numbers) do n = n + x end
            numbers[1] = 100 return n]], { globals = { numbers = numbers } }))
        assert.same({ 1, 2, 3, name = "n" }, numbers)
        assert.equal("mine", run("return string", { globals = { string = "mine" } }))
    end)

    it("gives each program its own Lua state", function()
        run "leak = 1; string.leak = 2; getmetatable('').__index = nil"
        assert.same({ n = 2 }, table.pack(run "return leak, string.leak"))
        assert.equal("X", run "return ('x'):upper()")
    end)

    it("has Lua's pure library, and nothing that reaches outside", function()
        local names = run [[
            local names = {}
            for name, value in pairs(_G) do
                -- What else math has depends on how Lua was built.
                if type(value) == "table" and value ~= _G and value ~= math then
                    for field in pairs(value) do names[#names + 1] = name .. "." .. field end
                elseif name ~= "math" then
                    names[#names + 1] = name
                end
            end
            table.sort(names)
            return names]]
        assert.equal("_G _VERSION assert coroutine.close coroutine.create coroutine.isyieldable "
            .. "coroutine.resume coroutine.running coroutine.status coroutine.wrap "
            .. "coroutine.yield error getmetatable ipairs load next os.clock os.difftime os.time "
            .. "pairs pcall rawequal rawget rawlen rawset select setmetatable string.byte "
            .. "string.char string.find string.format string.gmatch string.gsub string.len "
            .. "string.lower string.match string.pack string.packsize string.rep string.reverse "
            .. "string.sub string.unpack string.upper table.concat table.insert table.move "
            .. "table.pack table.remove table.sort table.unpack tonumber tostring type utf8.char "
            .. "utf8.charpattern utf8.codepoint utf8.codes utf8.len utf8.offset xpcall",
            table.concat(names, " "))
    end)

    it("loads only text", function()
        assert.equal(3, run "return load('return 1 + 2')()")
        assert.equal(5, run "return load('return x', 'c', 'bt', { x = 5 })()")
        local binary = string.dump(function() return 1 end)
        assert.same({ n = 2, true, true }, table.pack(run([[
            local f, message = load(binary, "x", "b")
            local g = load(function() local b = binary binary = nil return b end)
            return f == nil and g == nil, message:find("binary") ~= nil]],
            { globals = { binary = binary } })))
        assert.matches("binary", ends("ERROR", binary))
    end)

    it("tells only the present time", function()
        local now = os.time()
        assert.is_true(run "return os.time()" - now <= 60)
        assert.matches("only without arguments", ends("ERROR", "os.time { year = 2000 }"))
    end)

    it("draws the same numbers each time", function()
        local draw = "return math.random(1 << 40), math.random()"
        assert.same({ run(draw) }, { run(draw) })
    end)

    it("returns what a program raised", function()
        assert.equal("sandbox:1: oh", ends("ERROR", "error 'oh'"))
        assert.equal("sandbox:2: attempt to index a nil value (global 'x')",
            ends("ERROR", "\nx.y = 1"))
        assert.equal("the program raised a table value", ends("ERROR", "error {}"))
        assert.equal("the program raised a nil value", ends("ERROR", "error()"))
        assert.matches("^sandbox:1: syntax error", ends("ERROR", "x y"))
        assert.matches("outside a coroutine", ends("ERROR", "coroutine.yield()"))
    end)

    it("reports what cannot be copied, and where", function()
        assert.equal("result 2.a[1].b: a function cannot be copied",
            ends("ERROR", "return 1, { a = { { b = print or next } } }"))
        assert.equal("result 1: a thread cannot be copied",
            ends("ERROR", "return coroutine.running()"))
        assert.equal("result 1.a (a key): a function cannot be copied",
            ends("ERROR", "return { a = { [next] = 1 } }"))
        assert.matches("^result 1%.x: the table contains itself",
            ends("ERROR", "local t = {} t.x = t return t"))
        assert.matches("nested too deep", ends("ERROR", "local t = {} for _ = 1, 101 do t = { t } "
            .. "end return t"))
        assert.equal("too many results (more than 1000)",
            ends("ERROR", "return table.unpack({}, 1, 1001)"))
    end)

    it("raises errors for wrong arguments, at the caller's line", function()
        local cyclic = {}
        cyclic.x = cyclic
        for message, arguments in pairs {
            ["code must be a string %(got 1%)"] = { 1 },
            ["opts.steps must be an integer"] = { "", { steps = "x" } },
            ["opts.memory_mb must be an integer from 1"] = { "", { memory_mb = 0 } },
            ["opts.timeout_ms must be an integer from 1"] = { "", { timeout_ms = -1 } },
            ['unknown option "memory" %(did you mean "memory_mb"%?%)'] = { "", { memory = 1 } },
            ["opts.globals%.f: a function cannot be copied"] = { "", { globals = { f = print } } },
            ["opts.globals%.x: the table contains itself"] = { "", { globals = cyclic } },
        } do
            help.raises("sandbox%.run: " .. message, run, table.unpack(arguments))
        end
        help.raises("^spec/run/sandbox_run_spec.lua:%d+: sandbox.run: opts.globals.f: a function",
            function() run("", { globals = { f = print } }) end)
    end)

    it("has limits, which have limits", function()
        local perform, got = programs.perform, nil
        function programs.perform(payload, ...)
            got = { string.unpack("<i8", payload), ... }
            return nil, "ended"
        end
        local _ <close> = setmetatable({}, { __close = function() programs.perform = perform end })
        for opts, expected in pairs {
            [{}] = { 100000000, 64, 1, 128 << 20 },
            [{ steps = 1 << 53, memory_mb = 1 << 20, timeout_ms = 1 << 40 }]
                = { 1 << 53, 1 << 20, (1 << 40) / 1000, 1 << 31 },
        } do
            run("", opts)
            assert.same(expected, got)
        end
        for name, max in pairs { steps = 1 << 53, memory_mb = 1 << 20, timeout_ms = 1 << 40 } do
            help.raises(("opts%%.%s must be an integer from"):format(name), run, "",
                { [name] = max + 1 })
        end
    end)
end)

describe("the limit of", function()
    it("steps applies in loops, callbacks, coroutines, and code that catches errors", function()
        for _, program in ipairs {
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do xpcall(function() while true do end end, function() end) end",
            "while true do coroutine.wrap(function() end)() end",
            "local function spin() while true do end end "
                .. "while true do coroutine.resume(coroutine.create(spin)) end",
            "local co = coroutine.create(function() while true do coroutine.yield() end end) "
                .. "while true do coroutine.resume(co) end",
            "table.sort({ 3, 1, 2 }, function() while true do end end)",
            "string.gsub(('a'):rep(1e5), 'a', function() while true do end end)",
            "local x <close> = setmetatable({}, { __close = function() while true do end end })",
            "load(function() while true do end end)",
            "setmetatable(_G, { __index = function() while true do end end }) return x",
            "local function f() return f() end f()",
        } do
            assert.equal("the program takes more than 100000 steps",
                ends("STEPS", program, { steps = 100000 }))
        end
    end)

    it("steps is exact to a thousand, and small programs count too", function()
        local count = "local n = 0 for _ = 1, %d do n = n + 1 end return n"
        assert.equal(1000, run(count:format(1000), within { steps = 10000 }))
        ends("STEPS", count:format(10000), { steps = 10000 })
        ends("STEPS", "for _ = 1, 50 do end", { steps = 20 })
        for _, name in ipairs { "create", "wrap" } do -- 100,000 steps
            ends("STEPS", ("for _ = 1, 100 do coroutine.%s(next) end"):format(name),
                { steps = 50000 })
        end
        assert.equal(1, run("return 1", { steps = 20 }))
    end)

    it("memory applies to tables, strings, stacks, coroutines and code", function()
        for _, program in ipairs {
            "local s = 'x' while true do s = s .. s end",
            "local t = {} while true do t = { t } end",
            "return ('x'):rep(1e9)",
            "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
            "local function f() return 1 + f() end f()",
            "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) end",
            "return load(('x = 1 '):rep(1e6))",
        } do
            assert.equal("the program needs more than 4 MiB",
                ends("MEMORY", program, { memory_mb = 4, steps = 1 << 40 }))
        end
    end)

    it("memory is what is said", function()
        local large = "return #('x'):rep(3 << 20)" -- in a buffer, and as a text
        assert.equal(3 << 20, run(large, within { memory_mb = 8 }))
        ends("MEMORY", large, { memory_mb = 4 })
    end)

    it("memory does not count garbage", function()
        assert.equal(1, run("for i = 1, 1e5 do local s = ('x'):rep(1000) .. i end return 1",
            within { memory_mb = 1 }))
        assert.equal(1 << 16, run([[ -- even where the collector would not run yet
            local keep = {}
            for i = 1, 1 << 16 do keep[i] = i end
            for i = 1, 5000 do local s = ('x'):rep(1000) .. i end
            return #keep]], within { memory_mb = 2 }))
    end)

    it("memory applies to globals", function()
        ends("MEMORY", "return 1", { memory_mb = 1, globals = { s = ("x"):rep(2 << 20) } })
    end)

    it("memory applies to the copies of results", function()
        assert.equal("the program's results need more than 4 MiB", ends("MEMORY",
            "local t = {} for i = 1, 50000 do t[i] = {} end return t", { memory_mb = 4 }))
    end)

    it("time applies even within a C function", function()
        for _, program in ipairs {
            "while true do pcall(error) end",
            "pcall(string.find, ('a'):rep(40), ('a-'):rep(40) .. 'b')",
            "setmetatable({}, { __gc = function() while true do end end }) "
                .. "for i = 1, 1e7 do local t = { i } end",
            "local x <close> = setmetatable({}, { __close = function() (''):rep(1e18) end })",
            "local s = {} for i = 1, 2e5 do s[i] = '::a' .. i .. '::' end load(table.concat(s))",
        } do
            assert.equal("the program takes more than 0.03 s",
                ends("TIMEOUT", program, { timeout_ms = 30, steps = 1 << 40 }))
        end
    end)
end)

describe("the process of a program", function()
    it("runs those of one run, and none after one that failed", function()
        local started, start = 0, confine.start
        function confine.start(made)
            started = started + 1
            return start(made)
        end
        local _ <close> = setmetatable({}, { __close = function() confine.start = start end })
        local function try(expected, ...)
            for _, program in ipairs { ... } do
                run(program, within { steps = 1e6 })
            end
            assert.equal(expected, started)
            started = 0
            return true
        end
        local one = "leak = 1"
        task.run(function()
            assert(new_run {}:call(try, 1, one, one, one))
            assert(new_run {}:call(try, 1, one))
            assert(new_run {}:call(try, 5, one, "error()", one, "return print or next", one,
                "x y", "while true do end", one))
        end)
    end)

    it("ends with a program that failed", function()
        local _ <close> = setmetatable({}, { __close = function() collectgarbage "restart" end })
        collectgarbage "stop"
        for _, program in ipairs { "return 1", "error()" } do
            run(program)
            assert.equal(program == "return 1" and "1" or "0",
                shell.output "pgrep -P $PPID --count lua5.4")
        end
    end)

    it("frees the memory of each", function()
        for i = 1, 8 do
            assert.equal(i, run("local t = {} for i = 1, 30 do t[i] = (' '):rep(1e6) .. i end "
                .. "return " .. i, within()))
        end
        local pid = shell.output "pgrep -P $PPID --newest lua5.4":match "%d+"
        local kb = shell.read(("/proc/%s/status"):format(pid)):match "VmRSS:%s*(%d+)"
        assert.is_true(tonumber(kb) < (size.SANITIZED and 500000 or 150000), kb)
    end)

    it("may send anything", function()
        for _, bytes in ipairs { "", "\1", "\200", "\0", "\0\0", "\0{", "\0{i", "\0}", "\0n{nn}",
            "\0r\1\0\0\0", "\0s\255\255\255\255", "\0{d\0\0\0\0\0\0\xf8\x7ft}", "\6MEMORY",
            "\5STEPS", "\0" .. ("{tt"):rep(50), "\0" .. ("{i1234567"):rep(1e5),
            "\0" .. ("{}"):rep(1e6), "\0" .. ("{t"):rep(101) .. "t" .. ("}"):rep(101) } do
            local perform = programs.perform
            function programs.perform() return bytes end
            local results = table.pack(pcall(run, ""))
            programs.perform = perform
            assert.same({ true }, { results[1], results[2] })
        end
    end)

    it("sends values that are counted as they are read, up to their bounds", function()
        local function decode(text, room)
            local ok, values = pcall(programs.decode, text, 1, room or 1e6)
            return ok and (values or "no room")
        end
        local function nested(depth) return ("{t"):rep(depth) .. "t" .. ("}"):rep(depth) end
        assert.same({ 1000, false, 1, false }, { decode(("n"):rep(1000)).n,
            decode(("n"):rep(1001)), decode(nested(100)).n, decode(nested(101)) })
        local one, name = ("<c1i8"):pack("i", 1), ("<c1s4"):pack("s", "name")
        for text, bytes in pairs { ["{}"] = 64, ["{" .. one .. "t}"] = 64 + 24, [name] = 36,
            ["{" .. one .. "t" .. name .. "f}"] = 64 + 24 + 36 + 56, n = 0 } do
            assert.equal(1, decode(text, bytes).n)
            assert.equal("no room", decode(text, bytes - 1))
        end
        assert.equal("no room", decode("{" .. one .. "t}", 64))
        for length, bytes in pairs { [40] = 115, [41] = 76 } do -- long texts are sent once
            local text, list = ("x"):rep(length), { 1 }
            local sent = programs.encode({ text, text, list, list }, 4)
            assert.same({ bytes, { text, text, list, list, n = 4 } }, { #sent, decode(sent) })
        end
        local deep = 1
        for _ = 1, 100 do deep = { deep } end
        assert.is_string((programs.encode({ deep }, 1)))
        assert.is_nil((programs.encode({ { deep } }, 1)))
        deep = {}
        for _ = 2, 100 do deep = { [deep] = 1 } end
        assert.is_table(decode((programs.encode({ deep }, 1))))
        assert.is_nil((programs.encode({ { [deep] = 1 } }, 1)))
        assert.is_false(decode(("{"):rep(101) .. "}" .. ("t}"):rep(100)))
        local _, problem = programs.encode({ { [("k"):rep(50)] = { [2.5] = { [true] = print } } } },
            1)
        assert.equal(("." .. ("k"):rep(40) .. "[2.5][boolean]: a function cannot be copied"),
            problem)
    end)

    it("is said to have ended where it has", function()
        local perform = programs.perform
        function programs.perform() return nil, "the other process has ended" end
        local _, message, code = run ""
        programs.perform = perform
        assert.same({ "the program's process: the other process has ended", "ERROR" },
            { message, code })
    end)
end)

describe("Ctrl-C", function()
    it("ends a program in a sandbox, and the run", function()
        for _, program in ipairs { "while true do end", "(''):rep(1e18)" } do
            local r = shell.interrupt { "--no-log", "-e", ([[
                print "ready" io.stdout:flush()
                print(pcall(require("ponder.sandbox").run, %q, { timeout_ms = 50000,
                    steps = 1 << 50 }))]]):format(program) }
            assert.same({ 130, "ready\n", "ponder: interrupted\n" }, { r.status, r.out, r.err })
        end
    end)

    it("so does the timeout of a task", function()
        task.run(function()
            local endless = within { steps = 1 << 50 }
            assert.equal("TIMEOUT", (select(3, task.timeout(0.02, run, "while true do end",
                endless))))
        end)
    end)

    it("so does the time of the run", function()
        local r = shell.ponder { "--no-log", "--timeout", "50ms", "-e", [[
            require("ponder.sandbox").run("(''):rep(1e18)", { timeout_ms = 50000 })]] }
        assert.same({ 124, "ponder: the time budget of 0.05 s is spent [TIMEOUT]\n" },
            { r.status, r.err })
    end)
end)
