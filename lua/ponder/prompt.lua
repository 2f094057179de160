--- Finds and loads prompt tables: files of prompt functions, one for each machine.
---
---     local prompt = require "ponder.prompt"
---     local prompts = prompt.load("tot")                 -- built in, or what takes its place
---     local machine = tot.new { prompts = prompts }
---
--- A file `NAME.lua` in one of the folders below takes the place of the built-in one, the first
--- that has it. It is read anew each time, so that an edited prompt is used at the next run.
---
--- 1. the folders given to `prompt.add` (`ponder --prompts DIR` does that), the last one first;
--- 2. `$PONDER_PROMPTS`;
--- 3. `./prompts`.
---
--- The file gets its module's name and its path (`local _, path = ...`), so that it can read what
--- stands beside it, such as a text for ponder.template.

local builtin = require "ponder.builtin"
local files = require "ponder.log.files"
local options = require "ponder.options"

local prompt = {}

local added = {}

local function check_string(where, what, value)
    if type(value) ~= "string" or value == "" then
        error(("%s: %s must be a string that is not empty (got %s)")
            :format(where, what, options.show(value)), 3)
    end
end

---Looks in `folder` for prompt files before anywhere else.
---@param folder string
function prompt.add(folder)
    check_string("prompt.add", "folder", folder)
    table.insert(added, 1, folder)
end

---The folders in which prompt files are looked for, in order.
---@return string[]
function prompt.folders()
    local folders = table.move(added, 1, #added, 1, {})
    local from_environment = os.getenv("PONDER_PROMPTS")
    if from_environment and from_environment ~= "" then
        folders[#folders + 1] = from_environment
    end
    folders[#folders + 1] = "./prompts"
    return folders
end

---The file that takes the place of the built-in prompts of that name, or nil.
---@param name string `"tot"`
---@return string? path
function prompt.find(name)
    check_string("prompt.find", "name", name)
    if name:find("[^%w_-]") then
        return nil
    end
    for _, folder in ipairs(prompt.folders()) do
        local path = ("%s/%s.lua"):format(folder, name)
        if files.exists(path) then
            return path
        end
    end
end

local function run(name, path)
    local chunk, problem = files.load(path, "prompts")
    if not chunk then
        return nil, problem
    end
    local ok, prompts = xpcall(chunk, function(message)
        return debug.traceback(tostring(message), 2)
    end, "prompts." .. name, path)
    if not ok then
        return nil, prompts
    elseif type(prompts) ~= "table" then
        return nil, ("%s: must return a table of prompt functions (got %s)")
            :format(path, options.show(prompts))
    end
    return prompts
end

---The prompt functions of a machine.
---@param name string `"tot"`, `"got"`, `"trm"`
---@return table<string, function>? prompts
---@return string? message why a file that was found could not be used: its file and line come first
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function prompt.load(name)
    check_string("prompt.load", "name", name)
    local path = prompt.find(name)
    if path then
        local prompts, problem = run(name, path)
        if not prompts then
            return nil, problem, "BAD_PROMPT"
        end
        return prompts
    end
    local ok, prompts = pcall(builtin.prompts, name)
    if not ok then
        return nil, prompts, "NO_PROMPT"
    end
    files.note_built_in(name)
    return prompts
end

return prompt
