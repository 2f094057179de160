--- Command-line arguments: options, then operands.
---
---     local opts, operands = args.parse("ponder run", list, {
---         json = { help = "print the script's table as JSON" },
---         max_memory_mb = { value = "N", type = "integer", min = 1, help = "..." },
---         e = { value = "CODE", type = "string", help = "run CODE" },
---     }, { stops_at_operand = true })
---
--- `max_memory_mb` is written `--max-memory-mb N` or `--max-memory-mb=N`; a single letter, `e`,
--- is written `-e CODE` or `--e CODE`. `--` ends the options. A mistake gives nil and one line that
--- says what was expected, with the nearest valid option. A number such as `-5` is an operand.
---
--- Scripts call `args.script`, which also handles `--help` and exits after a mistake.

local options = require "ponder.base.options"
local terminal = require "ponder.core.terminal"

local args = {}

---@class ArgumentRule
---@field value? string name of the value in the help; without one the option is a switch
---@field type? "string"|"integer"|"number"|"duration"|"list" of the value; "string" if absent. A
---  list is comma-separated strings
---@field unit? "s"|"ms" of a duration's value, and of a number given without a unit; "s" if absent
---@field implied? any the value of a flag without one: `--decide`, `--decide=0.01`
---@field files? boolean the value is a path (in completion, too)
---@field many? boolean may be repeated; the value is a list of all
---@field alias? string another name, which the help does not list
---@field was? string its former name, which is refused with the new one
---@field min? number
---@field max? number
---@field enum? string[] the only values allowed
---@field default? any
---@field help? string one line

---How an option is written: `--max-depth`, `-e`.
---@param name string as in the rules: `max_depth`, `e`
---@return string
---@package
function args.flag(name)
    return #name == 1 and "-" .. name or "--" .. name:gsub("_", "-")
end

local SECONDS = { ms = 0.001, s = 1, m = 60, h = 3600 }

---Reads a duration: `30s`, `500ms`, `2m`, `1.5h`.
---@param text string
---@return number? seconds nil: not a duration
---@return boolean? bare it has no unit, and was read as seconds
---@package
function args.duration(text)
    local number, unit = text:match("^(%d*%.?%d*)(%a*)$")
    local count = number and tonumber(number)
    local size = SECONDS[unit == "" and "s" or unit]
    return count and size and count * size, unit == ""
end

local KINDS = { string = "a string", integer = "an integer", number = "a number",
    duration = "a time such as 30s, 500ms or 2m", list = "a list such as A,B" }

-- What is wrong with rules, if anything.
local function find_rule_problem(rules)
    for name, rule in pairs(rules) do
        local kind = rule.type
        if type(name) ~= "string" or not name:find("^%w[%w_]*$") then
            return ("%s cannot be the name of an option"):format(options.show(name))
        elseif kind ~= nil and not KINDS[kind] then
            local near = options.nearest(kind, options.names(KINDS))
            local hint = near and ("; did you mean %s?"):format(near) or ""
            return ("the type of %s must be string, integer, number, duration or list (got %s%s)")
                :format(name, options.show(kind), hint)
        elseif (kind or rule.many or rule.enum) and type(rule.value) ~= "string" then
            return ("%s has a type, so it needs the name of its value: value = \"N\""):format(name)
        end
    end
end

local function check_rules(where, rules)
    local problem = find_rule_problem(rules)
    if problem then
        error(("%s: rules: %s"):format(where, problem), 3)
    end
end

local function expectation(rule, text)
    if rule.enum then
        return "one of " .. table.concat(rule.enum, ", ")
    elseif rule.files then
        return "a path"
    end
    local kind = KINDS[rule.type]
    if rule.type == "duration" then
        return (rule.min or 0) > 0 and kind:gsub("time", "time above 0,") or kind
    elseif rule.min and rule.max then
        return ("%s from %s to %s"):format(kind, rule.min, rule.max)
    elseif rule.min or rule.max then
        return ("%s %s %s"):format(kind, rule.min and ">=" or "<=", rule.min or rule.max)
    elseif rule.type == "integer" and options.is_too_large(tonumber(text)) then
        return "an integer from -2^63 to 2^63 - 1"
    end
    return kind
end

local hinted = {} -- flags whose missing unit was already mentioned

-- Reads a duration in the unit of its rule.
local function read_duration(flag, text, rule)
    local seconds, bare = args.duration(text)
    if not seconds or rule.unit == "ms" then
        local ms = seconds and (bare and seconds or seconds * 1000)
        return ms and math.tointeger(math.floor(ms + 0.5))
    end
    if bare and not hinted[flag] then
        hinted[flag] = true
        io.stderr:write(("ponder: %s %s is in seconds; say so: %s %ss\n"):format(flag, text, flag,
            text))
    end
    return seconds
end

local function is_out_of_range(value, rule)
    return value - value ~= 0 -- NaN or infinite
        or rule.min and value < rule.min or rule.max and value > rule.max
end

local convert

-- Reads comma-separated items; or nil and what was expected.
local function read_list(flag, text, rule)
    local list, item_rule = {}, { enum = rule.enum }
    for item in text:gmatch("[^,]+") do
        local value, problem = convert(flag, item:match("^%s*(.-)%s*$"), item_rule)
        if problem then
            return nil, problem
        end
        list[#list + 1] = value
    end
    return list
end

-- Converts the text of a value by its rule; or nil and what was expected.
function convert(flag, text, rule)
    if rule.type == "list" then
        return read_list(flag, text, rule)
    end
    local value = text
    if rule.type == "integer" or rule.type == "number" or rule.type == "duration" then
        if rule.type == "duration" then
            value = read_duration(flag, text, rule)
        else
            value = tonumber(text)
        end
        if value and rule.type == "integer" then
            value = not options.is_too_large(value) and math.tointeger(value) or nil
        end
        if value and is_out_of_range(value, rule) then
            value = nil
        end
    elseif rule.enum and not options.has(rule.enum, text) or rule.files and text == "" then
        value = nil
    end
    if value == nil then
        return nil, ("%s must be %s (got %s)"):format(flag, expectation(rule, text),
            options.show(text))
    end
    return value
end

-- The message for an unknown flag. `others`: flags that are read elsewhere, if they come first.
local function unknown(flag, rules, others)
    local flags = {}
    for i, other in ipairs(others or {}) do
        if flag == other then
            return flag .. " must come first"
        end
        flags[i] = other
    end
    local former = flag:gsub("^%-%-", ""):gsub("-", "_")
    for name, rule in pairs(rules) do
        if rule.was == former then
            return ("%s is now %s"):format(flag, args.flag(name))
        end
        flags[#flags + 1] = args.flag(name)
    end
    table.sort(flags)
    return ("unknown option %s%s"):format(flag, options.hint(flag, flags, "%s"))
end

-- The option that a flag names, and its rule.
local function rule_of(flag, rules)
    local name = flag:match("^%-%-(%w[%w-]*)$") or flag:match("^%-(%w)$")
    name = name and name:gsub("-", "_")
    if not name or rules[name] then
        return name, rules[name or false]
    end
    for option, rule in pairs(rules) do
        if rule.alias == name then
            return option, rule
        end
    end
end

-- Reads the option at list[i] into opts. Returns the index of its last word, or nil, message.
local function read_option(list, i, rules, opts, others)
    local word = list[i]
    local flag, text = word:match("^(%-%-[^=]+)=(.*)$")
    flag = flag or word
    local name, rule = rule_of(flag, rules)
    if not rule then
        return nil, unknown(flag, rules, others)
    elseif not rule.value then
        opts[name] = true
        return not text and i or nil, flag .. " does not take a value"
    end
    if not text and rule.implied ~= nil then
        opts[name] = rule.implied
        return i
    elseif not text then
        i = i + 1
        text = list[i]
    end
    if not text then
        return nil, ("%s needs a value: %s %s"):format(flag, flag, rule.value)
    end
    local value, message = convert(flag, text, rule)
    if rule.many and value ~= nil then
        local values = opts[name] ~= rule.default and opts[name] or {} -- a default is replaced
        table.move(rule.type == "list" and value or { value }, 1,
            rule.type == "list" and #value or 1, #values + 1, values)
        value = values
    end
    opts[name] = value
    return value ~= nil and i or nil, message
end

---Reads options and operands.
---@param command string prefix of messages: "ponder run"
---@param list string[]
---@param rules table<string, ArgumentRule>
---@param how? {stops_at_operand: boolean?, others: string[]?} stops_at_operand: all words after the
---  first operand are operands; others: flags that are read elsewhere, if they come first
---@return table? opts values by name; a switch is true; nil for a usage error
---@return string[]|string operands or the message of a usage error, one line
---@return integer? first the index in `list` of the first operand
function args.parse(command, list, rules, how)
    check_rules("args.parse", rules)
    local opts = {}
    for name, rule in pairs(rules) do
        opts[name] = rule.default
    end
    how = how or {}
    local operands, first, only_operands = {}, nil, false
    local i = 1
    while i <= #list do
        local word = list[i]
        local is_option = word:sub(1, 1) == "-" and word ~= "-"
            and not (tonumber(word) and not rule_of(word:sub(1, 2), rules))
        if only_operands or not is_option then
            operands[#operands + 1] = word
            first = first or i
            only_operands = only_operands or how.stops_at_operand
        elseif word == "--" then
            only_operands = true
        else
            local last, message = read_option(list, i, rules, opts, how.others)
            if not last then
                return nil, ("%s: %s"):format(command, message)
            end
            i = last
        end
        i = i + 1
    end
    return opts, operands, first
end

local COLUMNS, LEAST, MOST = 80, 20, 100 -- widths: the default; more is hard to read
local NARROW = 60                        -- below it, descriptions get their own lines
local MIN_COLUMN, MAX_COLUMN = 22, 28 -- where descriptions begin

-- Wraps a text at `width` bytes and indents all lines but the first.
local function wrap(text, width, indent)
    local lines, line = {}, nil
    for word in text:gmatch("%S+") do
        if line and #line + 1 + #word > width then
            lines[#lines + 1], line = line, nil
        end
        line = line and line .. " " .. word or word
    end
    lines[#lines + 1] = line
    return table.concat(lines, "\n" .. (" "):rep(indent))
end

---Fills the paragraphs of a text; indented lines stay as they are.
---@param text string
---@param columns? integer default 80
---@return string
---@package
function args.fill(text, columns)
    local lines, words = {}, {}
    local function flush()
        lines[#lines + 1] = words[1] and wrap(table.concat(words, " "), columns or COLUMNS, 0)
        words = {}
    end
    for line in (text .. "\n"):gmatch("(.-)\n") do
        if line == "" or line:find("^%s") then
            flush()
            lines[#lines + 1] = line
        else
            words[#words + 1] = line
        end
    end
    flush()
    return table.concat(lines, "\n")
end

---Formats terms and their descriptions as two columns.
---@param rows {[1]: string, [2]: string}[]
---@param columns? integer default 80
---@return string
---@package
function args.list(rows, columns)
    columns = columns or COLUMNS
    local column = columns < NARROW and 3 or MIN_COLUMN
    for _, row in ipairs(rows) do
        column = math.max(column, columns < NARROW and 0 or math.min(#row[1], MAX_COLUMN))
    end
    local lines = {}
    for i, row in ipairs(rows) do
        local gap = #row[1] > column and "\n" .. (" "):rep(column + 3)
            or (" "):rep(column + 1 - #row[1])
        lines[i] = "  " .. row[1] .. gap .. wrap(row[2], columns - column - 3, column + 3)
    end
    return table.concat(lines, "\n")
end

---Formats options for a help text.
---@param rules table<string, ArgumentRule>
---@param order? string[] names; default: all, sorted
---@param columns? integer default 80
---@return string
---@package
function args.help(rules, order, columns)
    check_rules("args.help", rules)
    local rows = {}
    for i, name in ipairs(order or options.names(rules)) do
        local rule = rules[name]
        local value = rule.value and (rule.implied ~= nil and "[=%s]" or " %s"):format(rule.value)
        rows[i] = { args.flag(name) .. (value or ""), rule.help or "" }
    end
    return args.list(rows, columns)
end

---A help text with options in sections.
---@param about string text before the sections
---@param rules table<string, ArgumentRule>
---@param sections {title: string?, names: string[]}[]
---@param columns? integer default 80
---@return string
---@package
function args.usage(about, rules, sections, columns)
    local parts = { about }
    for _, section in ipairs(sections) do
        parts[#parts + 1] = (section.title and section.title .. ":\n" or "")
            .. args.help(rules, section.names, columns)
    end
    return table.concat(parts, "\n\n")
end

---Collects the options of a command from a list in the order of its help.
---@param list table[] rules, each with its name at 1 (`{ "max_depth", value = "N" }`), and lists of
---  such rules; a list with a `title` begins a section
---@return table<string, ArgumentRule> rules by name
---@return {title: string?, names: string[]}[] sections
---@package
function args.collect(list)
    local rules, sections = {}, {}
    local function add(items)
        for _, item in ipairs(items) do
            local name = item[1]
            if item.title or not sections[1] then
                sections[#sections + 1] = { title = item.title, names = {} }
            end
            if type(name) == "string" then
                rules[name] = item
                table.insert(sections[#sections].names, name)
            else
                add(item)
            end
        end
    end
    add(list)
    return rules, sections
end

-- Whether the options contain `--help` or `-h`, and no rule claims it.
local function asks_for_help(list, rules, how)
    if rules.help then
        return false
    end
    for _, word in ipairs(list) do
        if word == "--help" or word == "-h" and not rules.h then
            return true
        elseif word == "--" or how.stops_at_operand and word:sub(1, 1) ~= "-" then
            return false
        end
    end
    return false
end

---The width of help on standard output.
---@return integer columns those of a terminal, from 20 to 100; else 80
---@package
function args.columns()
    return math.max(LEAST, math.min(terminal.size(1) or COLUMNS, MOST))
end

local function script_help(name, rules, how)
    local columns = args.columns()
    local parts = { args.fill(how.usage or ("%s [OPTION...]"):format(name), columns),
        how.about and args.fill(how.about, columns) }
    local shown = {}
    for option, rule in pairs(rules) do
        local help, default = rule.help or "", rule.default
        if default ~= nil and not help:find("default", 1, true) then
            help = ("%s%s(default: %s)"):format(help, help == "" and "" or " ",
                type(default) == "table" and table.concat(default, ",") or tostring(default))
        end
        shown[option] = setmetatable({ help = help }, { __index = rule })
    end
    shown.help = { help = "print this" }
    local order = how.order and table.move(how.order, 1, #how.order, 1, {})
    if order then
        order[#order + 1] = "help"
    end
    parts[#parts + 1] = args.help(shown, order, columns)
    return table.concat(parts, "\n\n")
end

---Reads the arguments of a script: `--help` prints its options and exits with status 0; a mistake
---exits with status 2 and a line on standard error.
---
---     local opts, operands = args.script("haiku", { ... }, {
---         lines = { value = "N", type = "integer", min = 1, default = 3, help = "of the poem" },
---     }, { usage = "haiku [OPTION...] THEME", about = "Writes a poem." })
---@param name string of the script
---@param list string[] its arguments
---@param rules table<string, ArgumentRule>
---@param how? {usage: string?, about: string?, order: string[]?, stops_at_operand: boolean?,
---  operands: integer?} for --help: the synopsis, what the script does, the order of options
---  (sorted if absent); operands: how many may be given, default any number
---@return table opts as of args.parse
---@return string[] operands
---@return integer? first
function args.script(name, list, rules, how)
    check_rules("args.script", rules)
    how = how or {}
    if asks_for_help(list, rules, how) then
        print(script_help(name, rules, how))
        os.exit(0)
    end
    local opts, operands, first = args.parse(name, list, rules, how)
    local excess = opts and operands[(how.operands or #operands) + 1]
    if not opts or excess then
        io.stderr:write(excess and ("%s: unexpected argument %s"):format(name,
            options.show(excess)) or operands, "\n")
        os.exit(2)
    end
    return opts, operands, first
end

return args
