--- Finds and loads prompt tables: files of prompt functions, one for each machine.
---
---     local prompt = require "ponder.prompt"
---     local prompts = prompt.load("tot")                 -- built in, or what takes its place
---     local machine = tot.new { prompts = prompts }
---
--- A file `NAME.lua` in one of the directories below takes the place of the built-in one, the first
--- that has it. It is read each time, so that an edited prompt is used at the next run.
---
--- 1. the directories given to `prompt.add` (`ponder --prompts DIR` does that), the last one first;
--- 2. `$PONDER_PROMPTS`;
--- 3. `./prompts`, if the user trusts it as it is now (`ponder trust ./prompts`).
---
--- Directory and file must belong to the caller or to root, and nobody else may write them. The
--- file has Lua's pure library (ponder.pure), and gets its module's name and its path. To change
--- one function it takes the others from `require "prompts.NAME"`. A line on standard error says
--- which prompts are not built in.

local builtin = require "ponder.builtin"
local files = require "ponder.log.files"
local directories = require "ponder.core.directory"
local notice = require "ponder.notice"
local options = require "ponder.options"
local pure = require "ponder.pure"
local read_file = require("ponder.file").read
local trust = require "ponder.prompt.trust"

local prompt = {}

local HERE = "./prompts"
local MOST_NAMES = 8 -- in a notice
local added = {}

local function check_string(where, what, value)
    if type(value) ~= "string" or value == "" then
        error(("%s: %s must be a string that is not empty (got %s)")
            :format(where, what, options.show(value)), 3)
    end
end

---Looks in `directory` for prompt files before anywhere else.
---@param directory string
function prompt.add(directory)
    check_string("prompt.add", "directory", directory)
    table.insert(added, 1, directory)
end

---The directories that somebody has named, in the order in which they are searched.
---@return string[]
function prompt.directories()
    local list = table.move(added, 1, #added, 1, {})
    local from_environment = os.getenv("PONDER_PROMPTS")
    if from_environment and from_environment ~= "" then
        list[#list + 1] = from_environment
    end
    return list
end

-------------------------------------------------------------------------------
-- Which file

-- What is wrong with a directory that somebody has named, or with its file.
local function named_problem(directory, path)
    return trust.problem(directory, "directory", true)
        or path and trust.problem(path, "file", true)
end

-- In ponder's own checkout the built-in prompts are in ./prompts.
local function is_built_in(name, path)
    local ok, text = pcall(builtin.text, name)
    return ok and read_file(path) == text
end

---@class ponder.prompt.Found where prompts come from
---@field path string? the file; nil: they are built in
---@field problem string? why the file cannot be used
---@field unused string? why the file that ./prompts has is not used
---@field hash string? SHA-256 of the text that is trusted

---The file that takes the place of the built-in prompts of that name. Nothing is run.
---@param name string `"tot"`
---@return ponder.prompt.Found
function prompt.find(name)
    check_string("prompt.find", "name", name)
    if name:find("[^%w_-]") then
        return {}
    end
    for _, directory in ipairs(prompt.directories()) do
        local path = ("%s/%s.lua"):format(directory, name)
        local exists = files.exists(path)
        local problem = not files.is_recorded(path) and not files.is_offline()
            and named_problem(directory, exists and path)
        if exists or problem then
            return { path = exists and path or directory, problem = problem or nil }
        end
    end
    local path = ("%s/%s.lua"):format(HERE, name)
    if files.is_recorded(path) then
        return { path = path }
    elseif not files.exists(path) then
        return {}
    end
    local contents, why = trust.check(HERE)
    if not contents then
        return { unused = not is_built_in(name, path) and why or nil }
    end
    return { path = path, hash = contents.hashes[name .. ".lua"] }
end

-- Says of directories that were named for this run, and of one in the environment that has no
-- Lua file at all, that they lack these prompts.
local function say_what_lacks(name)
    for i, directory in ipairs(files.is_offline() and {} or prompt.directories()) do
        local names = {}
        for _, file in ipairs(directories.files(directory) or {}) do
            names[#names + 1] = file.name:match "^[^.].*%.lua$"
        end
        table.sort(names)
        if i <= #added or not names[1] then
            notice.once(("%s has no %s.lua (%s)"):format(directory, name, names[1]
                and "it has " .. table.concat(names, ", ", 1, math.min(#names, MOST_NAMES))
                or "nor another Lua file"))
        end
    end
end

-------------------------------------------------------------------------------
-- Loading

-- The fields alone: a metatable could run code wherever the table is looked at.
local function plain(prompts)
    local fields = {}
    for field, value in next, prompts do
        if type(field) == "string" then
            fields[field] = value
        end
    end
    return fields
end

local function run(name, path, hash)
    local text, problem = files.read(path, "prompts", hash)
    if not text then
        return nil, "cannot open " .. problem
    end
    local chunk, message = pure.load(text, "@" .. path)
    if not chunk then
        return nil, message
    end
    local ok, prompts = pure.call(chunk, "prompts." .. name, path)
    if not ok then
        return nil, type(prompts) == "string" and prompts
            or ("%s: raised %s"):format(path, options.show(prompts))
    elseif type(prompts) ~= "table" then
        return nil, ("%s: must return a table of prompt functions (got %s)")
            :format(path, options.show(prompts))
    end
    return plain(prompts)
end

---The prompt functions of a machine.
---@param name string `"tot"`, `"got"`, `"trm"`
---@param own? table<string, function> those of a strategy that is not built in
---@return table<string, function>? prompts
---@return string? message why a file that was found could not be used: its file and line come first
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function prompt.load(name, own)
    check_string("prompt.load", "name", name)
    local found = prompt.find(name)
    if found.problem then
        return nil, found.problem, "BAD_PROMPT"
    elseif found.path then
        local prompts, problem = run(name, found.path, found.hash)
        if not prompts then
            return nil, problem, "BAD_PROMPT"
        end
        notice.once(found.path .. " takes the place of the built-in prompts")
        return prompts
    end
    local ok, prompts = own ~= nil, own
    if not own then
        ok, prompts = pcall(builtin.prompts, name)
    end
    if not ok then
        return nil, prompts, "NO_PROMPT"
    elseif found.unused then
        notice.once(("%s/%s.lua is not used (%s); to use it: ponder trust %s"):format(HERE, name,
            found.unused, HERE))
    end
    say_what_lacks(name)
    if not own then
        files.note_built_in(name)
    end
    return prompts
end

return prompt
