-- Untrusted Lua: prompt files and settings.

local help = require "task_help"
local pure = require "ponder.base.pure"
local shell = require "shell"

local function run(text, ...)
    return assert(pure.load(text, "@x"))(...)
end

describe("pure.environment", function()
    it("has Lua's pure library and nothing else", function()
        local names = {}
        for name, value in pairs(pure.environment()) do
            if type(value) == "table" and name ~= "_G" then
                for field in pairs(value) do
                    names[#names + 1] = name .. "." .. field
                end
            else
                names[#names + 1] = name
            end
        end
        table.sort(names)
        assert.equal("_G _VERSION assert error getmetatable ipairs "
            .. "math.abs math.acos math.asin math.atan math.ceil math.cos math.deg math.exp "
            .. "math.floor math.fmod math.huge math.log math.max math.maxinteger math.min "
            .. "math.mininteger math.modf math.pi math.rad math.random math.sin math.sqrt math.tan "
            .. "math.tointeger math.type math.ult next pairs pcall rawequal rawget rawlen rawset "
            .. "require select setmetatable string.byte string.char string.find string.format "
            .. "string.gmatch string.gsub string.len string.lower string.match string.pack "
            .. "string.packsize string.rep string.reverse string.sub string.unpack string.upper "
            .. "table.concat table.insert table.move table.pack table.remove table.sort "
            .. "table.unpack tonumber tostring type utf8.char utf8.charpattern utf8.codepoint "
            .. "utf8.codes utf8.len utf8.offset xpcall", table.concat(names, " "))
    end)

    it("cannot reach the host", function()
        for _, text in ipairs {
            "os.execute 'true'", "io.open 'x'", "print(1)", "load 'return 1'", "dofile 'x'",
            "loadfile 'x'", "debug.getregistry()", "package.loaded.os.exit()", "coroutine.yield()",
            "collectgarbage()", "require 'os'", "require 'ponder.task'", "require 'cjson'",
            "require 'ponder.core.private'", "_G.os.exit()", "string.dump(print)",
            "getmetatable('').__index.rep = 1", "setmetatable('', {})", "('').x = 1",
            "setmetatable({}, { __gc = function() end })", "setmetatable(host, {})",
            "getmetatable(host).__index.method = 1", "getmetatable(io)",
        } do
            local env = pure.environment()
            env.host = setmetatable({}, { __index = { method = "kept" } })
            local chunk = assert(pure.load(text, "@x", env))
            if text == "getmetatable(io)" then
                chunk()
            else
                assert.is_false(pcall(chunk), text)
            end
            assert.equal("kept", env.host.method)
        end
    end)

    it("is a copy, so that changes stay within a file", function()
        run [[
            string.rep, table.concat, math.max, utf8.char = nil, nil, nil, nil
            for _, name in ipairs { "ponder.quote", "ponder.template", "prompts.tot" } do
                local module = require(name)
                for field in pairs(module) do module[field] = nil end
            end
            _G.pairs, pairs, type = nil, nil, nil
        ]]
        assert.is_truthy(string.rep and table.concat and math.max and utf8.char and pairs and type)
        assert.is_function(require("ponder.quote").cut)
        assert.is_function(require("ponder.template").compile)
        assert.is_function(require("ponder.base.builtin").prompts("tot").generate)
        assert.equal("xx", run "return string.rep('x', 2)")
    end)

    it("has an xpcall", function()
        assert.same({ true, 1, nil, n = 3 }, table.pack(run [[
            return xpcall(function(...) return ... end, error, 1, nil)]]))
        assert.same({ false, "<x:1: e>" }, { run [[
            return xpcall(function() error "e" end, function(e) return "<" .. e .. ">" end)]] })
        assert.same({ false, 5 }, { run "return xpcall(error, function() error(5) end)" })
    end)

    it("lets a file set the metatables of its own tables", function()
        assert.equal("default\ttrue\tnil", run [[
            local meta = { __index = function() return "default" end }
            local t = setmetatable({}, meta)
            setmetatable(t, meta)
            return t.x .. "\t" .. tostring(getmetatable(t) == meta) .. "\t"
                .. tostring(getmetatable "")]])
        for text, expected in pairs {
            ["setmetatable(1, {})"] = "bad argument #1 to 'setmetatable' (table expected)",
            ["setmetatable({}, 1)"] = "bad argument #2 to 'setmetatable' (nil or table expected)",
            ["setmetatable(..., {})"] = "cannot change a metatable of another file",
            ["setmetatable({}, { __gc = 1 })"] = "cannot set a finalizer (__gc) here",
            ["require 'os'"] = "module os is not available here; ponder.quote, ponder.template and "
                .. "the built-in prompts (prompts.tot) are" } do
            assert.equal("x:1: " .. expected, select(2, pcall(run, text, setmetatable({}, {}))))
        end
    end)

    it("loads only text, with the file's arguments", function()
        assert.is_nil((pure.load(string.dump(function() end), "@x")))
        assert.equal("a-b", run("#!/first line\nlocal a, b = ... return a .. '-' .. b", "a", "b"))
        assert.same({ nil, "x:2: boom" }, { nil, select(2, pcall(run, "\nerror 'boom'")) })
    end)
end)

-- The result of a script in the executable, which also limits every single allocation.
local function executed(code)
    local r = shell.ponder { "-e", "local pure = require 'ponder.base.pure' " .. code }
    assert.equal("", r.err)
    assert.equal(0, r.status)
    return (r.out:gsub("\n$", ""))
end

describe("pure.call", function()
    it("stops endless code, even if it catches errors", function()
        for _, text in ipairs {
            "while true do end", "while true do pcall(function() while true do end end) end",
            "local function f() return f() end f()", "repeat until pcall(error)",
            "while true do xpcall(error, function() while true do end end) end",
        } do
            local ok, message = pure.call(assert(pure.load(text, "@x")))
            assert.is_false(ok)
            assert.matches("did not end within 10000000 steps", message)
        end
    end)

    it("stops code that takes too much memory", function()
        for _, text in ipairs { "local t = {} while true do t[#t + 1] = {} end",
            "local s = 'x' while true do s = s .. s end" } do
            assert.matches("^false\t.*memory", executed(
                ("print(pure.call(pure.load(%q, '@x')))"):format(text)))
        end
        assert.matches("needs more than 64 MiB of memory$", select(2, pure.call(assert(pure.load(
            "local t = {} while true do t[#t + 1] = {} end", "@x")))))
        assert.same({ true, 3e7 }, { pure.call(assert(pure.load(
            "local s = string.rep('x', 3e7) for _ = 1, 1e4 do end return #s", "@x"))) })
        assert.equal("false\tnot enough memory\ttrue", executed [[
            local ok, message = pure.call(pure.load("return #string.rep('x', 1e9)", "@x"))
            print(ok, message, #string.rep("x", 1e8) == 1e8)]])
        assert.equal("100", executed [[ -- the run's own limit stays
            local host = require "ponder.core.host"
            host.limit_memory(100)
            pure.call(function() end)
            print(select(2, host.memory()) >> 20)]])
    end)

    it("returns or raises what the function does", function()
        assert.same({ true, 1, nil, 3, n = 4 }, table.pack(pure.call(function(...)
            return ...
        end, 1, nil, 3)))
        local err = {}
        local ok, raised = pure.call(error, err)
        assert.is_false(ok)
        assert.equal(err, raised)
    end)
end)

describe("pure.data", function()
    it("is the result of a chunk without libraries", function()
        assert.same({ a = { 1, 2.5, true }, ["b c"] = "x" }, pure.data(
            "local x = 'x' return { a = { 1, 5 / 2, true }, ['b c'] = x }", "f.lua"))
        assert.is_nil(pure.data("", "f.lua"))
    end)

    it("stops endless code and code that takes too much memory", function()
        for _, text in ipairs { "while true do end",
            "local t = {} while true do t[#t + 1] = {} end",
            "local s = 'x' while true do s = s .. s .. s .. s end", "return ('x'):rep(1e9)",
            "local function f() return f() end f()", "local function f() f() end f()" } do
            local out = executed(("print(pcall(pure.data, %q, 'f.lua')) print(('x'):rep(2))")
                :format(text))
            assert.matches("^false\tf.lua:[^\n]+\nxx$", out)
        end
    end)

    it("has no functions or cycles", function()
        for text, expected in pairs {
            ["return { { f = function() end } }"] = "f.lua: must be data: .*%(got a function%)",
            ["local t = {} t[1] = t return t"] = "f.lua: tables are nested too deeply",
            ["local t = {} t[t] = 1 return t"] = "f.lua: tables are nested too deeply",
            ["return {"] = "^f.lua:1: ",
        } do
            help.raises(expected, pure.data, text, "f.lua")
        end
        local function nested(depth) return ("{"):rep(depth) .. ("}"):rep(depth) end
        assert.is_table(pure.data("return " .. nested(100), "f.lua"))
        assert.is_false(pcall(pure.data, "return " .. nested(101), "f.lua"))
    end)
end)
