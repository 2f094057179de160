-- Every public function has a description: a comment of three dashes right above it or, for a C
-- module that scripts use as it is, above its stub in lua/ponder/meta.
--
-- Public is what a module of lua/ponder returns: the functions of the table that it returns. A
-- table marked `---@type Name` needs no more than the fields that `---@class Name` describes.

local shell = require "shell"

local function files(dir)
    return shell.lines(shell.output(("find %s -name '*.lua' | LC_ALL=C sort"):format(dir)))
end

local function lines_of(path)
    local list = {}
    for line in io.lines(path) do
        list[#list + 1] = line
    end
    return list
end

local function is_description(line)
    return line ~= nil and line:find "^%s*%-%-%-" ~= nil and not line:find "^%s*%-%-%-%-"
end

-------------------------------------------------------------------------------
-- Modules in Lua, by their text

--- The line of the module's last `return`, and the name that it returns, if any.
local function exported(lines)
    for i = #lines, 1, -1 do
        local what = lines[i]:match "^return (.+)$"
        if what then
            return i, what:match "^([%a_][%w_]*)$", what
        end
    end
end

--- Where functions are defined at the outermost level: full name -> line.
local function definitions(lines)
    local found = {}
    for i, line in ipairs(lines) do
        local name = line:match "^function ([%w_.:]+)" or line:match "^local function ([%w_]+)"
            or line:match "^([%w_.]+) = function%f[%W]"
        if name then
            found[name:gsub(":", ".")] = i
        end
    end
    return found
end

--- The declared type of the module's table: the Name of `---@type Name` above it.
local function type_of(lines, name)
    for i = 2, #lines do
        if lines[i]:find("^local " .. name .. " = ") then
            return lines[i - 1]:match "^%-%-%-@type ([%w_.]+)"
        end
    end
end

--- Public functions without a description, as "name (line)". `fields` has those of each class.
local function undescribed(lines, fields)
    local bare, last, name, what = {}, exported(lines)
    local function check(label, line)
        if not is_description(lines[line - 1]) then
            bare[#bare + 1] = ("%s (%d)"):format(label, line)
        end
    end
    if not last then
        return bare
    elseif what:find "^function%f[%W]" then
        check("return", last)
        return bare
    end
    local defined = definitions(lines)
    local described = name and fields[type_of(lines, name)] or {}
    for full, line in pairs(defined) do
        local key = name and full:match("^" .. name .. "%.([%w_]+)$")
        if key and not described[key] then
            check(full, line)
        end
    end
    for key, value in what:gmatch "([%w_]+) = ([%w_.]+)" do -- return { key = value, ... }
        if defined[value] then
            check(key, defined[value])
        end
    end
    table.sort(bare)
    return bare
end

--- Class -> field -> true, for the fields that are functions.
local function described_fields(all)
    local fields = {}
    for _, lines in ipairs(all) do
        local class
        for _, line in ipairs(lines) do
            class = line:match "^%-%-%-@class ([%w_.]+)" or is_description(line) and class or nil
            local field = line:match "^%-%-%-@field ([%w_]+)%?? fun%f[%W]"
            if class and field then
                fields[class] = fields[class] or {}
                fields[class][field] = true
            end
        end
    end
    return fields
end

-------------------------------------------------------------------------------
-- Modules in C, by their stubs

--- The module that a file of lua/ponder/meta describes, its name there, and its lines.
local function stub(path)
    local lines = lines_of(path)
    local name = path:match "([%w_]+)%.lua$"
    for _, module in ipairs { "ponder.core." .. name, "ponder." .. name } do
        local ok, library = pcall(require, module)
        if ok then
            return library, select(2, exported(lines)), lines
        end
    end
end

describe("every module of lua/ponder", function()
    local all, paths = {}, {}
    for _, path in ipairs(files "lua") do
        if not path:find "^lua/ponder/meta/" then
            all[#all + 1], paths[#paths + 1] = lines_of(path), path
        end
    end
    local fields = described_fields(all)

    for i, path in ipairs(paths) do
        it("describes its public functions: " .. path, function()
            assert.same({}, undescribed(all[i], fields))
        end)
    end
end)

describe("every module that scripts require", function()
    --- Whether the comment above the place where a function begins describes it.
    local function described(f)
        local info = debug.getinfo(f, "S")
        local path = info.source:match "^@(.+)$"
        return path ~= nil and is_description(lines_of(path)[info.linedefined - 1])
    end

    for _, path in ipairs(files "lua/ponder") do
        local name = path:match "^lua/ponder/([%w_]+)%.lua$"
        local ok, library = pcall(require, "ponder." .. (name or ""))
        if ok and type(library) == "table" then -- some are for the executable alone
            it("has a description for each function it has once loaded: " .. name, function()
                for key, value in pairs(library) do
                    if type(value) == "function" and debug.getinfo(value, "S").what ~= "C" then
                        assert.is_true(described(value), ("ponder.%s.%s"):format(name, key))
                    end
                end
            end)
        end
    end
end)

describe("every C module with a stub", function()
    for _, path in ipairs(files "lua/ponder/meta") do
        it("is described in full, and nothing else is: " .. path, function()
            local library, name, lines = stub(path)
            if library == nil then
                return -- for the executable alone
            end
            assert.is_truthy(name, path .. " must end with `return NAME`")
            local stubs = {}
            for full, line in pairs(definitions(lines)) do
                local key = full:match("^" .. name .. "%.([%w_]+)$")
                if key then
                    assert.is_true(is_description(lines[line - 1]), full .. " has no description")
                    assert.equal("function", type(library[key]), full .. " is not there")
                    stubs[key] = true
                end
            end
            for key, value in pairs(library) do
                if type(value) == "function" then
                    assert.is_true(stubs[key], ("%s.%s has no stub"):format(name, key))
                end
            end
        end)
    end
end)

describe("this spec", function()
    local function bare(text, fields)
        local lines = {}
        for line in text:gmatch "([^\n]*)\n" do
            lines[#lines + 1] = line
        end
        return undescribed(lines, fields or {})
    end

    it("finds a function without a description", function()
        assert.same({ "m.a (2)", "m.c (5)" }, bare(
            "local m = {}\nfunction m.a() end\n---B.\nfunction m.b() end\nm.c = function() end\n"
            .. "local function d() end\nfunction other.e() end\nreturn m\n"))
        assert.same({ "m.a (3)" },
            bare("local m = {}\n-- not this\nfunction m:a() end\nreturn m\n"))
        assert.same({ "m.a (3)" }, bare("local m = {}\n------\nfunction m.a() end\nreturn m\n"))
        assert.same({ "key (1)" }, bare("local function f() end\nreturn { key = f, other = 1 }\n"))
        assert.same({ "return (2)" }, bare("local x = 1\nreturn function() return x end\n"))
        assert.same({}, bare("---Doubles.\n---@return integer\nreturn function() return 2 end\n"))
    end)

    it("accepts what a class describes", function()
        local fields = described_fields { {
            "---@class P what", "---@field a fun()", "---@field b integer", "",
            "---@field c fun()", "---@class Q", "---@field d? fun()",
        } }
        assert.same({ P = { a = true }, Q = { d = true } }, fields)
        assert.same({ "m.d (4)" }, bare(
            "---@type P\nlocal m = {}\nfunction m.a() end\nfunction m.d() end\nreturn m\n", fields))
    end)
end)
