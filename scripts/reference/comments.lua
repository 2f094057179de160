--- Parses the doc comments of ponder's modules: each comment of three dashes with the line of code
--- below it, and the module's `return`. The annotations are those of lua-language-server.

local comments = {}

---@class reference.Typed a parameter, result or field
---@field name string?
---@field type string
---@field optional boolean it may be nil
---@field text string[] lines

---@class reference.Entry
---@field kind "module"|"function"|"class"|"alias"|"value"
---@field module string such as "ponder.search"
---@field name string such as "search", "search.run", "Tree:to_table", "SearchNode"
---@field lines string[] the comment without its dashes
---@field code string the line below it
---@field text string[] the lines before the first tag
---@field params reference.Typed[]
---@field returns reference.Typed[]
---@field fields reference.Typed[]
---@field parents string[] of a class
---@field see string[]
---@field is_private boolean?

---------------------------------------------------------------------------------------------------
-- Types

local OPENING = { ["("] = ")", ["{"] = "}", ["<"] = ">", ["["] = "]" }

-- The end of the type that begins at `from`: before a blank outside of brackets and quotes, unless
-- the type continues after it (`a | b`, `fun(): c`, `a|` at the end of a line).
local function type_end(text, from)
    local open, at = {}, from
    while at <= #text do
        local c = text:sub(at, at)
        if c == '"' then
            at = text:find('"', at + 1, true) or #text
        elseif OPENING[c] then
            open[#open + 1] = OPENING[c]
        elseif c == open[#open] then
            open[#open] = nil
        elseif c:find("%s") and #open == 0 then
            local before, after = text:sub(at - 1, at - 1), text:match("^%s*(.?)", at)
            if not before:find("[|:]") and after ~= "|" then
                return at - 1
            end
        end
        at = at + 1
    end
    return #text
end

---Reads a type at the beginning of a text.
---@param text string
---@return string type in one line
---@return string rest
function comments.read_type(text)
    local from = text:find("%S") or 1
    local last = type_end(text, from)
    return (text:sub(from, last):gsub("%s+", " ")), (text:sub(last + 1):gsub("^%s+", ""))
end

local function lines_of(text)
    local lines = {}
    for line in (text .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line
    end
    while lines[#lines] == "" do
        lines[#lines] = nil
    end
    return lines
end

local function typed(name, mark, kind, text)
    local plain = kind:match("^(.*)%?$")
    return { name = name, type = plain or kind, optional = mark == "?" or plain ~= nil,
        text = lines_of(text) }
end

---------------------------------------------------------------------------------------------------
-- Tags

local read = {}

local function named(text)
    local name, mark, rest = text:match("^([%w_.%[%]]+)(%??)%s+(.*)$")
    if not name then
        return typed(text:match("^%S+"), "", "any", "")
    end
    local kind, about = comments.read_type(rest)
    return typed(name, mark, kind, about)
end

function read.param(entry, text)
    entry.params[#entry.params + 1] = named(text)
end

function read.field(entry, text)
    local hidden = text:find("^private%s") or text:find("^package%s") or text:find("^protected%s")
    if not hidden then
        entry.fields[#entry.fields + 1] = named((text:gsub("^public%s+", "")))
    end
end

-- `@return type [name] [text]`, or several separated by commas.
read["return"] = function(entry, text)
    repeat
        local kind, rest = comments.read_type(text)
        local more = kind:find(",$")
        kind = kind:gsub(",$", "")
        local name, mark, about = rest:match("^([%a_.][%w_.]*)(%??)%f[%s%z]%s*(.*)$")
        if more or not name then
            name, mark, about = nil, "", more and "" or rest
        end
        entry.returns[#entry.returns + 1] = typed(name, mark, kind, about)
        text = rest
    until not more
end

read["class"] = function(entry, text)
    local name, rest = text:match("^([%w_.]+)%s*(.*)$")
    entry.kind, entry.name = "class", name
    while rest:find("^[:,]") do
        entry.parents[#entry.parents + 1], rest = rest:match("^[:,]%s*([%w_.]+)%s*(.*)$")
    end
    if rest ~= "" then
        table.move(lines_of(rest), 1, 99, #entry.text + 1, entry.text)
    end
end

function read.alias(entry, text)
    local name, rest = text:match("^(%S+)%s*(.*)$")
    entry.kind, entry.name, entry.text = "alias", name, lines_of(rest)
end

function read.see(entry, text)
    entry.see[#entry.see + 1] = text
end

-- For ponder's own modules.
function read.package(entry)
    entry.is_private = true
end

read.private = read.package

local function new_entry(module, lines, code)
    return { kind = "value", module = module, lines = lines, code = code, text = {}, params = {},
        returns = {}, fields = {}, parents = {}, see = {} }
end

-- Parses a comment into an entry; one with several classes into several.
local function parse(module, lines, code)
    local entry = new_entry(module, lines, code)
    local entries, tag, body = { entry }, nil, nil
    local function finish()
        if tag and read[tag] then
            read[tag](entry, table.concat(body, "\n"))
        end
    end
    for _, line in ipairs(lines) do
        local found, rest = line:match("^%s*@(%l+)%s?(.*)$")
        if found then
            finish()
            if found == "class" and entry.kind == "class" then
                entry = new_entry(module, lines, "")
                entries[#entries + 1] = entry
            end
            tag, body = found, { rest }
        elseif tag then
            body[#body + 1] = (line:gsub("^%s+", ""))
        else
            entry.text[#entry.text + 1] = line
        end
    end
    finish()
    return entries
end

---------------------------------------------------------------------------------------------------
-- Files

-- How a module exports its functions: the variable that its `return` names, or the fields of a
-- table in its `return`, by the local that each holds.
local function exports(last)
    local variable, by_local = last:match("^return ([%a_][%w_]*)$"), {}
    for field, value in last:gmatch("([%w_]+) = ([%w_]+)") do
        by_local[value] = field
    end
    return variable, by_local
end

---The names of a function's parameters, "a, b": those of its code if its comment leaves some out.
---@param entry reference.Entry
---@return string
function comments.parameters(entry)
    local names, in_code = {}, {}
    for i, param in ipairs(entry.params) do
        names[i] = param.name
    end
    for name in (entry.code:match("function[^()]*(%b())") or ""):gmatch("[%w_.]+") do
        in_code[#in_code + 1] = name
    end
    return table.concat(#in_code > #names and in_code or names, ", ")
end

local function short(module)
    return (module:gsub("^ponder%.", ""))
end

-- Sets the kind and name of an entry from the line of code below the comment.
local function name_entry(entry, last, classes)
    local code, variable, by_local = entry.code, exports(last)
    local owner, dot, name = code:match("^function ([%w_]+)([.:])([%w_]+)%(")
    if not owner then
        owner, name = code:match("^([%w_]+)%.([%w_]+) = ")
        dot = "."
    end
    local plain = code:match("^local function ([%w_]+)%(")
    local is_function = code:find("^function ") or plain or code:find("function%(")
    if entry.kind == "class" then
        local object = code:match("^local ([%w_]+) = ")
        if object then
            classes[object] = entry.name
        end
    elseif entry.kind == "alias" then
        return
    elseif owner then
        local of = owner == variable and short(entry.module) or classes[owner] or owner
        is_function = is_function or entry.params[1] ~= nil
        entry.kind, entry.name = is_function and "function" or "value", of .. dot .. name
        entry.owner = of
        entry.exported = owner == variable or dot == ":"
    elseif plain or code:find("^return function") then
        entry.kind = "function"
        entry.exported = not plain or by_local[plain] ~= nil
        entry.name = short(entry.module) .. (plain and "." .. (by_local[plain] or plain) or "")
    end
end

-- Parses the comments of one file.
local function read_file(path, classes)
    local entries, lines, header, last, meta = {}, {}, nil, "", nil
    local all = {}
    for line in io.lines(path) do
        all[#all + 1] = line
        meta = meta or line:match("^%-%-%-@meta ([%w_.]+)")
        last = line:find("^return ") and line or last
    end
    local module = meta or path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/", ".")
    for _, line in ipairs(all) do
        local comment = not line:find("^%-%-%-%-") and line:match("^%-%-%- ?(.*)$")
        if comment and not line:find("^%-%-%-@meta") then
            lines[#lines + 1] = comment
        elseif lines[1] then
            for _, entry in ipairs(parse(module, lines, line)) do
                name_entry(entry, last, classes)
                if entry.kind == "value" and not entry.name and not header then
                    header = entry
                    entry.kind, entry.name = "module", short(module)
                end
                entries[#entries + 1] = entry.name and entry or nil
            end
            lines = {}
        end
    end
    return { module = module, name = short(module), header = header, entries = entries,
        variable = (exports(last)) }
end

---Adds a generated comment to a module.
---@param module table of `read`
---@param lines string[] without dashes
---@param code string the line below it
---@param classes? table<string, string> class by the variable in `code`
function comments.add(module, lines, code, classes)
    for _, entry in ipairs(parse(module.module, lines, code)) do
        name_entry(entry, "return " .. module.variable, classes or {})
        table.insert(module.entries, entry)
    end
end

---Parses the comments of all modules.
---@param paths string[] of their files, relative to the checkout
---@return {module: string, name: string, header: reference.Entry?,
---  entries: reference.Entry[], variable: string?}[] modules in order of path
function comments.read(paths)
    local modules, classes = {}, {}
    for i, path in ipairs(paths) do
        local prefix = path:match("^lua/ponder/%w+/(%w+)/") or path:match("^lua/ponder/(%w+)") or ""
        classes[prefix] = classes[prefix] or {} -- methods may be in another file of the directory
        modules[i] = read_file(path, classes[prefix])
    end
    return modules
end

return comments
