--- Makes the pages of `ponder doc` and `ponder help TOPIC`, for a terminal of any width.
---
--- A page is a list of blocks, which ponder.show.reference.render writes: a line that stays as it
--- is; a paragraph {first, hang, words, bold?}: `first` begins its first line, the others begin at
--- the column `hang`, and `bold` says that `first` is bold; or a table {rows = lines, width =
--- columns, blocks = what replaces it where it does not fit}.

local builtin = require "ponder.base.builtin"
local comments = require "comments"
local generated = require "generated"
local json = require "ponder.json"
local options = require "ponder.base.options"
local text = require "ponder.show.text"

local pages = {}

-- The modules that scripts require; the others are internal.
local PUBLIC = { "search", "task", "run", "process", "model", "model.cache", "model.price",
    "model.provider", "model.script", "log", "log.graph", "strategy", "strategy.tools",
    "operations", "operations.methods", "optimize", "ensemble", "eval", "eval.checks",
    "eval.matrix", "eval.policy", "eval.score", "data", "stats", "serve", "mcp", "queue", "redis",
    "sandbox", "template", "prompt", "parse", "machine", "json", "args", "policy", "quote" }
for _, name in ipairs(builtin.strategies) do
    table.move({ "strategy." .. name, name }, 1, 2, #PUBLIC + 1, PUBLIC)
end
local IS_PUBLIC = {}
for _, name in ipairs(PUBLIC) do
    IS_PUBLIC[name] = true
end

local NAME_COLUMN = 28 -- where sentences begin in a list
local MAX_NESTED = 3 -- levels of classes whose fields a function's page shows

---------------------------------------------------------------------------------------------------
-- Blocks

local Page = {}
Page.__index = Page

local function new_page()
    return setmetatable({ blocks = {} }, Page)
end

-- Adds a line unchanged.
function Page:line(line, is_bold)
    table.insert(self.blocks, is_bold and { line, 0, "", true } or line)
end

-- Adds an empty line, unless the last one is empty.
function Page:gap()
    if self.blocks[1] and self.blocks[#self.blocks] ~= "" then
        self:line("")
    end
end

-- Adds words as a paragraph.
function Page:fill(words, hang, first, is_bold)
    table.insert(self.blocks, { first or (" "):rep(hang), hang, words, is_bold or nil })
end

local RULE = "^%s*|[%s|:-]*$" -- the line below a table's head

local function cells_of(line)
    local cells = {}
    for cell in line:gsub("\\|", "\0"):gsub("^%s*|", ""):gsub("|%s*$", ""):gmatch("([^|]*)|?") do
        cells[#cells + 1] = cell:match("^%s*(.-)%s*$"):gsub("%z", "|")
    end
    if cells[#cells] == "" then
        cells[#cells] = nil
    end
    return cells
end

-- Adds a table with its columns aligned, or where it is too wide a paragraph for each row, with its
-- first cell as the title. A row without a first cell continues the one above.
function Page:table(rows, indent)
    local block, narrow, widths, whole = { rows = {}, width = 0 }, new_page(), {}, {}
    for i, row in ipairs(rows) do
        rows[i] = not row:find(RULE) and cells_of(row)
        for j, cell in ipairs(rows[i] or {}) do
            widths[j] = math.max(widths[j] or 0, text.width(cell))
        end
    end
    for i, cells in ipairs(rows) do
        local line = (" "):rep(indent) .. "|"
        for j, width in ipairs(widths) do
            local cell = cells and cells[j] or ""
            line = line .. (cells and " " .. cell .. (" "):rep(width - text.width(cell)) .. " |"
                or ("-"):rep(width + 2) .. "|")
        end
        block.rows[i], block.width = line, text.width(line)
        if cells and cells[1] == "" and whole[1] then
            for j, cell in ipairs(cells) do
                whole[#whole][j] = ((whole[#whole][j] or "") .. " " .. cell):match "^%s*(.-)%s*$"
            end
        elseif cells and (i > 1 or rows[2] ~= false) then -- not the head
            whole[#whole + 1] = cells
        end
    end
    for _, cells in ipairs(whole) do
        narrow:fill(cells[1] or "", indent + 2, (" "):rep(indent))
        if cells[2] then
            narrow:fill(table.concat(cells, "; ", 2), indent + 4)
        end
    end
    block.blocks = narrow.blocks
    table.insert(self.blocks, block)
end

-- Writes a block: a paragraph, a list item, a term with its definition, or a table.
local function flush(page, block, indent)
    local blanks = (" "):rep(indent)
    if block.term then
        page:line(blanks .. block.term)
    end
    if block[1] then
        page:fill(table.concat(block, " "), indent + (block.term and 4 or #(block.mark or "")),
            block.mark and blanks .. block.mark or nil)
    elseif block.rows then
        page:table(block.rows, indent)
    end
    return {}
end

-- Adds Markdown: titles, paragraphs, lists, terms (`term   definition`), tables, links to other
-- pages without their addresses, and code, indented after an empty line or between ```.
function Page:comment(lines, indent)
    local block, is_code = {}, false
    for _, line in ipairs(lines) do
        line = is_code and line or line:gsub("%[([^%]]+)%]%([%w_/.-]+%.md[^)]*%)", "%1")
        local mark, item = line:match("^%s*([*-] )(.*)$")
        if not mark then
            mark, item = line:match("^(%d+%. )(.*)$")
        end
        local term, about = line:match("^(%S.-)%s%s%s+(%S.*)$")
        if line:find("^```") then
            block, is_code = flush(self, block, indent), not is_code
        elseif is_code then
            self:line((" "):rep(indent + 4) .. line)
        elseif line:find("^%s*$") then
            block = flush(self, block, indent)
            self:gap()
        elseif line:find("^#+ ") then
            self:line(line:match("^#+ (.*)$"), true)
        elseif line:find("^    ") and not block[1] and not block.rows then -- code
            self:line((" "):rep(indent) .. line)
        elseif line:find("^%s*|") then
            block = block.rows and block or flush(self, block, indent)
            block.rows = block.rows or {}
            table.insert(block.rows, line)
        elseif item or term then
            block = flush(self, block, indent)
            block[1], block.mark, block.term = item or about, mark and mark:gsub("-", "*"), term
        else
            block = block.rows and flush(self, block, indent) or block
            block[#block + 1] = line:match("^%s*(.*)$")
        end
    end
    flush(self, block, indent)
end

-- Adds a parameter, a result or a field: its name and type, and below that its description.
function Page:typed(typed, indent)
    local name = (typed.name or "") .. (typed.optional and "?" or "")
    local first = (" "):rep(indent) .. (name == "" and "" or name .. "  ")
    self:fill(typed.type:gsub("%s*|%s*", " | "), #first, first, true)
    self:comment(typed.text, indent + 4)
end

---------------------------------------------------------------------------------------------------
-- Modules and entries

-- All modules, and entries by name; short names are aliases.
local function read_index(modules)
    local index = { modules = modules, by_name = {}, names = {} }
    local function add(name, value, is_alias)
        if not index.by_name[name] then
            index.by_name[name] = value
            index.names[#index.names + 1] = not is_alias and name or nil
        end
    end
    local function each_entry(f)
        for _, module in ipairs(index.modules) do
            for _, entry in ipairs(module.entries) do
                if not entry.is_private then
                    f(entry, module)
                end
            end
        end
    end
    local described = {} -- public modules with a long header
    for _, module in ipairs(index.modules) do
        described[module.name] = IS_PUBLIC[module.name] and module.header
            and #module.header.text > 3
    end
    each_entry(function(entry, module)
        if entry.params[1] and entry.name ~= module.name and not described[entry.name] then
            add(entry.name, { entry = entry })
        end
    end)
    for _, module in ipairs(index.modules) do
        add(module.name, { module = module })
    end
    each_entry(function(entry) add(entry.name, { entry = entry }) end)
    each_entry(function(entry)
        add(entry.name:gsub("^ponder%.", ""), { entry = entry }, true)
        add(entry.name:match("[^.]+$"), { entry = entry }, true)
    end)
    table.sort(index.names)
    return index
end

-- The class that a type names, without `?`, `[]` and `nil`.
local function class_of(index, kind)
    local name = kind:gsub("%?$", ""):gsub("|nil$", ""):gsub("%[%]$", "")
    local found = name:find("^[%w_.]+$") and index.by_name[name]
    return found and found.entry and found.entry.kind == "class" and found.entry or nil
end

-- The first sentence of a comment.
local function first_sentence(lines)
    local words = {}
    for _, line in ipairs(lines) do
        if line:find("^%s*$") then
            break
        end
        words[#words + 1] = line
    end
    local whole, from = table.concat(words, " "), 1
    repeat
        from = whole:find("[.]%s", from + 1)
    until not from or not whole:find("^%f[%w]al[.]", from - 2)
    return (from and whole:sub(1, from) or whole):gsub(":$", ".")
end

---------------------------------------------------------------------------------------------------
-- Pages

local function signature(entry)
    local returns = {}
    for i, result in ipairs(entry.returns) do
        returns[i] = result.name or result.type
    end
    return ("%s(%s)%s"):format(entry.name, comments.parameters(entry),
        returns[1] and " -> " .. table.concat(returns, ", ") or "")
end

local add_fields -- (page, index, class, indent, shown, named)

-- The fields of a parameter's or result's class.
local function add_class_of(page, index, typed, indent, shown)
    local class = class_of(index, typed.type)
    if class and not shown[class] and indent <= 4 * MAX_NESTED then
        add_fields(page, index, class, indent, shown)
    end
end

-- `named`: the fields shown of classes that inherit from this one, and may redefine its fields.
function add_fields(page, index, class, indent, shown, named)
    shown[class], named = true, named or {}
    for _, field in ipairs(class.fields) do
        if not named[field.name or field] then
            named[field.name or field] = true
            page:typed(field, indent)
        end
    end
    for _, name in ipairs(class.parents) do
        local parent = class_of(index, name)
        if parent and not shown[parent] then
            page:gap()
            page:comment(parent.text, indent)
            add_fields(page, index, parent, indent, shown, named)
        end
    end
end

-- Refers to classes that fields mention and the page does not show.
local function add_mentioned(page, index, shown)
    local names, known = {}, {}
    for class in pairs(shown) do
        for _, field in ipairs(class.fields) do
            for name in field.type:gmatch("[%a][%w_.]+") do
                local other = class_of(index, name)
                if other and not shown[other] and not known[other] then
                    known[other] = true
                    names[#names + 1] = other.name
                end
            end
        end
    end
    if names[1] then
        table.sort(names)
        page:gap()
        page:fill("See also: " .. table.concat(names, ", "), 0)
    end
end

local function add_list(page, index, title, list, shown)
    if list[1] then
        page:gap()
        page:line(title, true)
        for _, typed in ipairs(list) do
            page:typed(typed, 2)
            add_class_of(page, index, typed, 6, shown)
        end
    end
end

local function function_page(page, index, entry)
    page:fill(signature(entry), 4, "")
    page:gap()
    page:comment(entry.text, 0)
    local shown = {}
    add_list(page, index, "Arguments", entry.params, shown)
    add_list(page, index, "Returns", entry.returns, shown)
    for _, name in ipairs(entry.see) do
        page:gap()
        page:fill("See: " .. name, 0)
    end
    add_mentioned(page, index, shown)
end

local function add_functions(page, title, entries)
    if entries[1] then
        page:gap()
        page:line(title, true)
    end
    for _, entry in ipairs(entries) do
        page:fill(entry.kind == "function" and signature(entry) or entry.name, 6, "  ")
        local sentence = first_sentence(entry.text)
        if sentence ~= "" then
            page:fill(sentence, 6)
        end
    end
end

local function class_page(page, index, class)
    page:line(class.name, true)
    page:comment(class.text, 0)
    page:gap()
    local shown, methods = {}, {}
    add_fields(page, index, class, 2, shown)
    for _, module in ipairs(index.modules) do
        for _, entry in ipairs(module.entries) do
            if entry.owner == class.name and entry.kind == "function" and not entry.is_private then
                methods[#methods + 1] = entry
            end
        end
    end
    add_functions(page, "Methods", methods)
    add_mentioned(page, index, shown)
end

local function module_page(page, index, module)
    page:line("ponder." .. module.name, true)
    page:gap()
    page:comment(module.header and module.header.text or {}, 0)
    local functions, classes = {}, {}
    for _, entry in ipairs(module.entries) do
        if entry.kind == "function" and entry.name == module.name then -- the module is a function
            page:gap()
            function_page(page, index, entry)
        elseif entry.exported and not entry.is_private then
            functions[#functions + 1] = entry
        elseif entry.kind == "class" or entry.kind == "alias" then
            classes[#classes + 1] = entry
        end
    end
    add_functions(page, "Functions", functions)
    add_functions(page, "Classes", classes)
end

local function entry_page(page, index, entry)
    if entry.kind == "function" then
        function_page(page, index, entry)
    elseif entry.kind == "class" then
        class_page(page, index, entry)
    else
        page:line(entry.name, true)
        page:comment(entry.text, 2)
        for _, name in ipairs(entry.see) do
            page:fill("See: " .. name, 2)
        end
    end
end

local function list_page(page, index, all)
    for _, name in ipairs(PUBLIC) do
        local module = (index.by_name[name] or {}).module
        if module and module.header then
            page:fill(first_sentence(module.header.text), NAME_COLUMN,
                ("  %-" .. NAME_COLUMN - 2 .. "s"):format(name), true)
        end
    end
    local others = {}
    for _, module in ipairs(index.modules) do
        others[#others + 1] = not IS_PUBLIC[module.name] and module.name or nil
    end
    page:gap()
    page:fill(all and "Internal modules: " .. table.concat(others, ", ")
        or "ponder doc NAME shows the functions and classes of a module.", 0)
end

---------------------------------------------------------------------------------------------------

local function blocks_of(make, ...)
    local page = new_page()
    make(page, ...)
    while page.blocks[#page.blocks] == "" do
        page.blocks[#page.blocks] = nil
    end
    return page.blocks
end

---All modules, with what no comment says.
---@param paths string[] of their files
---@return table[] modules of comments.read
function pages.modules(paths)
    local modules = comments.read(paths)
    generated.strategies(modules)
    generated.exports(modules, PUBLIC)
    return modules
end

---The pages of all modules, functions and classes.
---@param modules table[] of pages.modules
---@return {list: table, all: table, names: string[], numbers: table<string, integer>,
---  pages: table[]} reference the lists of modules; the names, sorted; and a page's number by each
---  of its names
function pages.reference(modules)
    local index = read_index(modules)
    local reference = { list = blocks_of(list_page, index), all = blocks_of(list_page, index, true),
        names = index.names, numbers = {}, pages = {} }
    local numbers = {}
    for _, name in ipairs(options.names(index.by_name)) do
        local found = index.by_name[name]
        local key = found.module or found.entry
        if not numbers[key] then
            table.insert(reference.pages, found.module and blocks_of(module_page, index, key)
                or blocks_of(entry_page, index, key))
            numbers[key] = #reference.pages
        end
        reference.numbers[name] = numbers[key]
    end
    return reference
end

---The blocks of a Markdown text, such as those of docs, without fields between `---` at its top.
---@param markdown string
---@return table blocks
function pages.text(markdown)
    local lines = {}
    for line in markdown:gsub("^%-%-%-\n.-\n%-%-%-\n+", ""):gmatch("([^\n]*)\n") do
        lines[#lines + 1] = line
    end
    return blocks_of(Page.comment, lines, 0)
end

---Replaces the blocks of pages by their numbers in one list, since many pages show the same fields.
---@param reference table of pages.reference, with `topics`
---@return table reference with `blocks`
function pages.intern(reference)
    local blocks, numbers = {}, {}
    local function replace(page)
        for i, block in ipairs(page) do
            local key = json.encode(block)
            if not numbers[key] then
                blocks[#blocks + 1] = block
                numbers[key] = #blocks
            end
            page[i] = numbers[key]
        end
    end
    replace(reference.list)
    replace(reference.all)
    for _, name in ipairs(options.names(reference.topics)) do
        replace(reference.topics[name])
    end
    for _, page in ipairs(reference.pages) do
        replace(page)
    end
    reference.blocks = blocks
    return reference
end

return pages
