-- ponder doc: complete, within the width, with examples that run; its stubs; and every public
-- function has a description.

package.path = package.path .. ";./scripts/reference/?.lua"

local comments = require "comments"
local generated = require "generated"
local json = require "ponder.json"
local options = require "ponder.base.options"
local shell = require "shell"

local build = os.getenv("PONDER_BUILD") or "build"

local paths = {}
for path in shell.read(build .. "/doc/made"):gmatch("%S+") do
    paths[#paths + 1] = path
end
local modules = comments.read(paths)
generated.strategies(modules)

local PUBLIC = {}
for name in shell.read("scripts/reference/pages.lua"):match("local PUBLIC = (%b{})")
    :gmatch('"([%w_.]+)"') do
    PUBLIC[name] = true
end
for _, name in ipairs(require("ponder.base.builtin").strategies) do
    PUBLIC["strategy." .. name] = true
    PUBLIC[name] = name ~= "cot" or nil -- which has no machine
end

local function ponder(...)
    local r = shell.ponder { "doc", ... }
    assert.same({ 0, "" }, { r.status, r.err })
    return r.out
end

describe("ponder doc", function()
    it("lists the modules that scripts require, each with a sentence", function()
        local list = ponder()
        for name in pairs(PUBLIC) do
            assert.matches("\n  " .. name .. "  +%u", "\n" .. list)
        end
        assert.matches("model.retry", ponder("--all"), 1, true)
    end)

    it("shows a function with its options, defaults, results and their classes", function()
        local page = ponder("search.run")
        for _, part in ipairs { "search.run(opts) -> result, message, code, partial\n",
            "\nArguments\n  opts  SearchOptions\n      initial_state  any\n",
            "\n      max_nodes?  integer\n          including the root; default 10000000\n",
            "\n      c_base?  number\n          puct: default 19652\n",
            "\nReturns\n  result?  SearchResult\n", "\n      hint?  string\n",
            "\nSee also: SearchNode, SearchPolicy, SearchTree, ponder.task.Spent\n" } do
            assert.matches(part, page, 1, true)
        end
        assert.equal(page, ponder("ponder.search.run"))
        assert.matches("act_threshold%?  number\n +a grade", ponder("strategy.trm.new"))
        assert.equal(1, select(2, ponder("ensemble.best_of_n"):gsub("\n      n%?  integer\n", "")))
    end)

    it("has a page for each function of these modules", function()
        local names = {}
        for name in pairs(PUBLIC) do
            names[#names + 1] = ("%q"):format(name)
        end
        local found = shell.ponder { "-e", ([[
            local known, count = {}, 0
            local reference = require("ponder.show.reference.render").read("reference")
            for _, name in ipairs(reference.names) do known[name] = true end
            for _, name in ipairs { %s } do
                local library = require("ponder." .. name)
                for key, value in pairs(type(library) == "table" and library or {}) do
                    count = count + (type(value) == "function" and 1 or 0)
                    if type(value) == "function" and not known[name .. "." .. key] then
                        print(name .. "." .. key)
                    end
                end
            end
            assert(count > 150, count)]]):format(table.concat(names, ", ")) }
        assert.same({ 0, "" }, { found.status, found.err })
        local IN_TABLES = { ["eval.score.all"] = true, ["eval.score.any"] = true,
            ["redis.is_url"] = true }
        for name in found.out:gmatch("%S+") do
            local module, key = name:match "^(.*)%.([%w_]+)$"
            local source = shell.read(("lua/ponder/%s.lua"):format(module:gsub("%.", "/")))
            local internal = ("\n%%-%%-%%-@package\nfunction [%%w_]+%%.%s%%("):format(key)
            assert.is_true(IN_TABLES[name] or name:find("^strategy%.%l%l%l%.") ~= nil
                or source:find(internal) ~= nil, name)
        end
    end)

    it("shows the functions of machines, which one function makes", function()
        for _, name in ipairs { "tot", "got", "trm" } do
            assert.matches("\n  opts%?  %u%l+Options\n", ponder(name .. ".new"))
            assert.matches("\n  map  table\n", ponder(name .. ".from_map"))
            assert.matches("\n  " .. name .. ".new(opts) -> machine\n", ponder(name), 1, true)
            local machine = require("ponder." .. name).new()
            for method in ponder("ponder.Machine"):gmatch("ponder%.Machine:([%w_]+)%(") do
                assert.is_function(machine[method])
            end
        end
        assert.matches("\n  msg  MachineMessage\n", ponder("Machine:update"))
    end)

    it("shows modules, classes and methods", function()
        assert.matches("^ponder.template\n\nText templates", ponder("template"))
        assert.matches("\n  id  integer\n      0 for the root;", ponder("SearchNode"))
        assert.equal(ponder("ponder.model.Model"), ponder("Model"))
        assert.matches("^ponder.model.Model:chat%(opts%) %->", ponder("Model:chat"))
        assert.matches("^parse.number%(text%) %->", ponder("parse.number")) -- not its module
        for _, name in ipairs { "eval.policy", "got", "ponder.strategy.Thinker", "eval" } do
            assert.is_nil(ponder(name):find "\n +\n", name) -- a row of a table may have one cell
        end
    end)

    it("suggests what was probably meant", function()
        local r = shell.ponder { "doc", "search.rum" }
        assert.same({ 2, "", 'ponder doc: unknown name "search.rum" (did you mean '
            .. "search.run?); ponder doc lists the modules\n" }, { r.status, r.out, r.err })
        r = shell.ponder { "doc", "cache.open" }
        assert.matches("(did you mean model.cache.open?)", r.err, 1, true)
        r = shell.ponder { "doc", "model.complete" }
        assert.matches("(did you mean ponder.model.Model:complete?)", r.err, 1, true)
        assert.equal(2, shell.ponder({ "doc", "a", "b" }).status)
        assert.equal(2, shell.ponder({ "doc", "--stub", "b" }).status)
    end)

    it("fits into 80 and 40 columns, except code and names", function()
        local r = shell.ponder { "-e", [[
            local render = require "ponder.show.reference.render"
            local text = require "ponder.show.text"
            local style = require("ponder.show.style").of(1)
            local reference, count = render.read("reference"), 0
            for _, columns in ipairs { 80, 40 } do
                for _, line in ipairs(render.lines(reference.blocks, columns, style)) do
                    count = count + 1
                    if text.width(line) > columns and not line:find("^    ")
                        and line:find("%S%s%S") then
                        print(columns, line)
                    end
                end
            end
            assert(count > 20000, count)]] }
        assert.same({ status = 0, out = "", err = "" }, r)
        for line in ponder("--columns", "40", "search.run"):gmatch("[^\n]+") do
            assert.is_true(#line <= 40, line)
        end
    end)

    it("refuses flags that would do nothing", function()
        for _, words in ipairs { { "--all", "search" }, { "--stubs", "/nonexistent", "search" },
            { "--stubs", "/nonexistent", "--all" },
            { "--stubs", "/nonexistent", "--columns", "50" } } do
            assert.equal(2, shell.ponder({ "doc", table.unpack(words) }).status)
        end
    end)
end)

---------------------------------------------------------------------------------------------------

describe("the reference", function()
    local seen

    -- Calls each function that checks a table of options with one that none has, and notes the
    -- rules that were checked: SCHEMAS by the name in the error.
    setup(function()
        seen = {}
        local check, unknown = options.check, { no_such_option = 1 }
        local function try(f, ...)
            assert.is_false((pcall(f, ...)))
        end
        options.check = function(where, opts, rules, level) -- luacheck: ignore 122
            seen[where] = rules
            return check(where, opts, rules, (level or 2) + 1)
        end
        local task = require "ponder.task"
        local search = require "ponder.search"
        local model = require "ponder.model"
        local ensemble = require "ponder.ensemble"
        local process = require "ponder.process"
        try(search.run, unknown)
        try(search.vote, {}, unknown)
        task.run(function()
            local m = model.open "script:scripts/models/arithmetic.lua"
            try(model.open, m.name, unknown)
            try(m.chat, m, unknown)
            try(m.complete, m, "", unknown)
            try(task.map, {}, print, unknown)
            try(task.all, {}, unknown)
            try(task.with_budget, unknown, print)
            try(require("ponder.run").new, unknown)
            try(require("ponder.sandbox").run, "", unknown)
            try(require("ponder.strategy").new, unknown)
            for _, name in ipairs { "tot", "got", "trm" } do
                try(require("ponder." .. name).new, unknown)
            end
            for _, name in ipairs { "tot", "got", "trm", "cot" } do
                try(require("ponder.strategy." .. name).new, unknown)
            end
            local operations = require "ponder.operations"
            local g = operations.new { start = {} }
            try(operations.new, unknown)
            try(g.run, g, unknown)
            try(require("ponder.eval").run, {}, unknown)
            try(require("ponder.serve").new, unknown)
            try(require("ponder.log.graph"), unknown)
            try(ensemble.best_of_n, unknown)
            try(ensemble.self_consistency, unknown)
            try(ensemble.debate, { m, m }, "q", unknown)
            try(ensemble.parallel_judge, unknown)
            try(process.run, unknown)
            try(process.open, unknown)
            try(require("ponder.mcp").open, unknown)
            try(require("ponder.redis").open, "redis://localhost", unknown)
        end)
        options.check = check -- luacheck: ignore 122
    end)

    -- Where the name in an error is not that of the entry.
    local ENTRIES = { ["search.vote"] = "think.search.vote",
        ["model.open, with the config file"] = "model.open",
        ["model.chat"] = "ponder.model.Model:chat",
        ["model.complete"] = "ponder.model.Model:complete", ["operations.run"] =
        "ponder.operations.Graph:run", ["tot.new"] = "TotOptions", ["got.new"] = "GotOptions",
        ["trm.new"] = "TrmOptions" } -- their pages show these classes

    it("has every option of every function, with its default", function()
        local count, missing = 0, {}
        for where, rules in pairs(seen) do
            local shown = ponder("--columns", "1000", ENTRIES[where] or where)
                :gsub("(%d),(%d%d%d)", "%1%2"):gsub("(%d),(%d%d%d)", "%1%2")
            for name, rule in pairs(rules) do
                count = count + 1
                local elsewhere = where == "tot.new" and seen["search.run"][name] -- it says so
                local at = elsewhere
                    or shown:find("%f[%w_]" .. (rule.alias or name) .. "%f[^%w_]")
                if not at then
                    missing[#missing + 1] = where .. ": " .. name
                elseif at and not elsewhere and (type(rule.default) == "string"
                    or type(rule.default) == "number" and rule.default ~= math.maxinteger) then
                    if not shown:find(tostring(rule.default), 1, true) then
                        missing[#missing + 1] = where .. ": default of " .. name
                    end
                end
            end
        end
        table.sort(missing)
        assert.same({}, missing)
        assert.is_true(count > 400)
    end)
end)

---------------------------------------------------------------------------------------------------

describe("each example of the reference", function()
    local MODEL = shell.root .. "/scripts/models/arithmetic.lua"

    -- What examples presuppose, by entry.
    local GIVEN = {
        args = 'local args, list = require "ponder.args", { "--json" }',
        ["args.script"] = 'local args = require "ponder.args"',
        ["data.choose"] = 'local data = require "ponder.data"',
        ["data.order"] = 'local data = require "ponder.data"',
        ["data.parse"] = 'local data = require "ponder.data"',
        ["eval.score"] = 'local score = require "ponder.eval.score"',
        got = 'local p, env = "Why?", nil',
        log = 'local url, fetch = "u", function(u) return u end',
                operations = [[local function ask_to_sort() return "Sort." end
            local function read_list() return { { sorted = { 1, 2, 3 } } } end
            local function mistakes() return 0 end]],
        process = 'local text = "b\\na\\n"',
        prompt = 'local tot = require "ponder.tot"',
        run = 'local question = "q" local function solve(q) return q end',
        serve = "",
        stats = "local both, first_only, second_only, neither = 50, 10, 5, 35",
        task = [[local questions, question = { 1, 2 }, 3
            local function ask(q) return q end
            local ask_one_model, ask_another, count_sheep = ask, ask, ask]],
        template = 'local template = require "ponder.template"',
    }
    -- Diagrams, errors and shell output; examples that need a server have their own specs.
    local NO_LUA = { machine = 1, ["operations.methods"] = 1, optimize = 1, queue = 2,
        ["quote.tagged"] = 1, redis = 1, run = 1, serve = 1, strategy = 1, task = 1 }
    local COMPILED_ONLY = { mcp = true, redis = true, ["eval.score"] = true, ["data.load"] = true,
        ["eval.rank"] = true, optimize = true }

    -- The blocks of code in a comment: lines of four blanks, after an empty line.
    local function blocks(lines)
        local found, block, open = {}, nil, true
        for _, line in ipairs(lines) do
            local code = line:match("^    (.*)$")
            if code and (block or open) then
                block = block or {}
                block[#block + 1] = code
            elseif block and line == "" then
                block[#block + 1] = ""
            else
                found[#found + 1] = block and table.concat(block, "\n")
                block = nil
            end
            open = line == "" or code ~= nil and block ~= nil
        end
        found[#found + 1] = block and table.concat(block, "\n")
        return found
    end

    local count, foreign = 0, {}
    for _, module in ipairs(modules) do
        for _, entry in ipairs(PUBLIC[module.name] and module.entries or {}) do
            local strange = 0
            for i, code in ipairs(blocks(entry.text)) do
                local chunk = load(code:gsub("^%-%- %S+%.lua\n", ""))
                strange = strange + (chunk and 0 or 1)
                if chunk and not COMPILED_ONLY[entry.name] then
                    count = count + 1
                    it(("runs: %s, %d"):format(entry.name, i), function()
                        local program = (GIVEN[entry.name] or "") .. "\n" .. code
                            :gsub("openai:gpt%-6%-luna", "script:" .. MODEL)
                            :gsub('"my%-server", "%-%-stdio"', '"cat"')
                            :gsub("server:wait", "server:drain() %0")
                        local dir <close> = shell.directory { ["a.lua"] = program }
                        local r = shell.run(("cd %s && PONDER_MODEL=script:%s %s run --no-log "
                            .. "a.lua 2>$ERR >$OUT"):format(dir.path, MODEL, shell.executable))
                        local err = r.err:gsub("^ponder: ensemble: all 8 samples are equal[^\n]*\n",
                            ""):gsub("^ponder run: the script returned a [^\n]*\n", "")
                        assert.same({ r.err:find "returned a strategy" and 2 or 0, "" },
                            { r.status, err }, code)
                    end)
                end
            end
            foreign[entry.name] = strange > 0 and strange or nil
        end
    end

    it("is found; other code blocks are diagrams or messages", function()
        assert.is_true(count >= 25)
        assert.same(NO_LUA, foreign)
    end)
end)

---------------------------------------------------------------------------------------------------

describe("ponder doc --stubs", function()
    local TAGS = {}
    for tag in ([[meta class field param return alias see type private package
        generic async deprecated
        overload cast vararg nodiscard diagnostic]]):gmatch("%a+") do
        TAGS[tag] = true
    end
    local BASIC = {}
    for name in ([[nil any boolean string number integer function table thread userdata
        lightuserdata unknown void self true false file* T]]):gmatch("%S+") do
        BASIC[name] = true
    end

    -- Reads a type as lua-language-server does, and puts the names in it into `names`; raises an
    -- error if it is malformed. `is_fields`: a list of parameters, or of fields of a table.
    local function read(text, names, is_fields)
        local function group(replacement, has_fields)
            return function(whole)
                read(whole:match("^%a*%s*.(.*).$"), names, has_fields)
                return replacement
            end
        end
        text = text:gsub('"[^"]*"', "0"):gsub("%[%]", "")
        text = text:gsub("fun%s*%b()", group("0", true)):gsub("0%s*:", "0|")
        text = text:gsub("%b{}", group("0", true)):gsub("%b()", group "0")
            :gsub("%b<>", group ""):gsub("%b[]", group "key")
        for part in (text .. ","):gmatch "([^,]*)," do
            if is_fields then -- a parameter may have no type
                part = part:match "^%s*[%w_.]+%??%s*:(.*)$"
                    or part:find "^%s*[%w_.]*%??%s*$" and "0" or error("a field at " .. part, 0)
            end
            for one in (part .. "|"):gmatch "([^|]*)|" do
                local name = one:match "^%s*(%-?[%w_.]+%*?)%?*%s*$"
                    or error("a type at " .. text, 0)
                names[name] = name:find "^%a" and true or nil
            end
        end
    end

    local dir, tags

    setup(function()
        dir = shell.directory()
        ponder("--stubs", dir.path .. "/stubs")
        tags = {}
        local list = shell.run(("cd %s/stubs && find . -name '*.lua' | LC_ALL=C sort >$OUT"):format(
            dir.path)).out
        for path in list:gmatch("%./([^\n]+)") do
            tags[path] = dir:read("stubs/" .. path)
        end
    end)
    teardown(function() dir:__close() end)

    it("writes Lua that loads, for every module", function()
        local count = 0
        for path, stub in pairs(tags) do
            count = count + 1
            assert(load(stub, path))
        end
        assert.is_true(count > 150)
        assert.matches("---@meta ponder.search\n", tags["ponder/search.lua"], 1, true)
        assert.matches("\nfunction search.run(opts) end\n", tags["ponder/search.lua"], 1, true)
        assert.matches("\nfunction tot.new(opts) end\n", tags["ponder/strategy/tot.lua"], 1, true)
    end)

    it("lists them in .luarc.json", function()
        local settings = json.decode(dir:read("stubs/.luarc.json"))
        assert.same({ dir.path .. "/stubs" }, settings["workspace.library"])
        assert.equal("Lua 5.4", settings["runtime.version"])
    end)

    it("writes annotations that a language server accepts, of existing classes", function()
        local known, used, wrong = {}, {}, {}
        for path, stub in pairs(tags) do
            for tag, rest in stub:gmatch("\n%-%-%- ?@(%l+) ?([^\n]*)") do
                if not TAGS[tag] then
                    wrong[#wrong + 1] = path .. ": @" .. tag
                elseif tag == "class" or tag == "alias" then
                    known[rest:match("^[%w_.]+")] = true
                end
            end
        end
        for _, module in ipairs(modules) do
            for _, entry in ipairs(module.entries) do
                for _, list in ipairs { entry.params, entry.returns, entry.fields } do
                    for _, typed in ipairs(list) do
                        local names = {}
                        local ok, problem = pcall(read, (typed.type:gsub(",$", "")), names)
                        if not ok then
                            wrong[#wrong + 1] = ("%s: %s: %s (%s)"):format(module.name, entry.name,
                                typed.type, problem)
                        end
                        for name in pairs(names) do
                            used[name] = entry.name
                        end
                    end
                end
            end
        end
        for name, where in pairs(used) do
            if not known[name] and not BASIC[name] then
                wrong[#wrong + 1] = where .. ": no class " .. name
            end
        end
        table.sort(wrong)
        assert.same({}, wrong)
    end)
end)

---------------------------------------------------------------------------------------------------

describe("every function that a module returns", function()
    -- A comment above it (of three dashes, if scripts require the module), or above its assignment
    -- to the module's table; or a class has a field of its name.
    it("has a description", function()
        local names = {}
        for name in pairs(PUBLIC) do
            names[#names + 1] = ("[%q] = true"):format(
                "lua/ponder/" .. name:gsub("%.", "/") .. ".lua")
        end
        local public = ("local PUBLIC = { %s }\n"):format(table.concat(names, ", "))
        local r = shell.ponder { "-e", public .. [[
            local files, fields, count = {}, { all = true, any = true }, 0 -- in a table: eval.score
            for _, name in ipairs(require("ponder.core.host").embedded_names()) do
                local path = name:match("^lua/.*%.lua$")
                if path then
                    local file <close> = assert(io.open(path))
                    files[path] = "\n" .. file:read("a")
                    for f in files[path]:gmatch("\n%-%-%-@field ([%w_]+)%?? %(?fun%f[%W]") do
                        fields[f] = true
                    end
                end
            end
            local function check(module, name, f)
                local info = debug.getinfo(f, "S")
                local path = "lua/" .. info.source:match("^@?(.*)$")
                if not files[path] then
                    return -- it is in C
                end
                count = count + 1
                local above, at = nil, 1
                for line in files[path]:gmatch("\n([^\n]*)") do
                    above, at = at < info.linedefined and line or above, at + 1
                end
                local dashes = PUBLIC[module] and "%-%-%-" or "%-%-"
                local assigned = "\n%-%-%-[^\n]*\n[%w_]+%." .. name .. " = "
                if not (above:find("^%s*" .. dashes) or fields[name]
                    or files[module]:find(assigned)) then
                    print(("%s: %s (%s:%d)"):format(module, name, path, info.linedefined))
                end
            end
            for path in pairs(files) do
                local library = require(path:match("^lua/(.*)%.lua$"):gsub("/", "."))
                for name, value in pairs(type(library) == "table" and library
                    or { ["return"] = library }) do
                    if type(value) == "function" then
                        check(path, name, value)
                    end
                end
            end
            assert(count > 800, count)]] }
        assert.same({ status = 0, out = "", err = "" }, r)
    end)
end)

-- The module that a file of lua/ponder/meta describes, the name that it returns, and its text.
local function stub(path)
    local text = "\n" .. shell.read(path)
    local name = path:match "([%w_]+)%.lua$"
    for _, module in ipairs { "ponder.core." .. name, "ponder." .. name } do
        local ok, library = pcall(require, module)
        if ok then
            return library, text:match "\nreturn ([%a_][%w_]*)\n$", text
        end
    end
end

describe("every C module with a stub", function()
    for _, path in ipairs(shell.lines(shell.output "ls lua/ponder/meta/*.lua")) do
        it("is described in full, and nothing else is: " .. path, function()
            local library, name, text = stub(path)
            if library == nil then
                return -- for the executable alone
            end
            assert.is_truthy(name, path .. " must end with `return NAME`")
            local stubs = {}
            for above, key in text:gmatch("([^\n]*)\nfunction " .. name .. "%.([%w_]+)") do
                assert.matches("^%-%-%-", above, key)
                assert.equal("function", type(library[key]), key .. " is not there")
                stubs[key] = true
            end
            for key, value in pairs(library) do
                if type(value) == "function" then
                    assert.is_true(stubs[key], ("%s.%s has no stub"):format(name, key))
                end
            end
        end)
    end
end)
