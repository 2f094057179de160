--- The files a run depends on: its script and modules, prompts, scripted models, tools and policy
--- data. They are read through this module, so that the log keeps their texts and a replay does not
--- need the files.

local directories = require "ponder.core.directory"
local private = require "ponder.core.private"
local store = require "ponder.core.store"
local whole_file = require "ponder.base.file"

local files = {}

---@class ponder.log.File
---@field path string as it was opened
---@field kind "script"|"module"|"prompts"|"model"|"tools"|"data"
---@field text string
---@field piped boolean it cannot be read again

local BUILT_IN = "built in: "
local ABSENT = "not in the log, which has what the program itself has read, no files of workers"

local read_by_path = {} -- files of this run, in order and by path
local recorded = {} -- files of the replayed run, by path
local script_directories = {} -- of the replayed run
local offline = false -- true: only `recorded` is read, no file
local on_file
local newest = {} -- the texts last read, by path; false: it could not be read
local modules = {} -- paths of those beside the script, by name

local function note(path, kind, text, piped)
    newest[path] = not piped and text or nil
    if not read_by_path[path] then
        local file = { path = path, kind = kind, text = text, piped = piped or false }
        read_by_path[path] = file
        table.insert(read_by_path, file)
        if on_file then
            on_file(file)
        end
    end
    return text
end

local SAME = { module = "script" } -- code that a run had named, or that lay beside it

-- Whether a file of the replayed run may be read as one of this kind. As data, any may.
local function is_of(file, kind)
    return kind == "data" or (SAME[file.kind] or file.kind) == (SAME[kind] or kind)
end

---Reads a file of the run.
---@param path string "-" is standard input
---@param hash? string the SHA-256 that it must have
---@return string? text
---@return string? message
---@return "UNREADABLE"? code
---@return string? problem why an existing file cannot be read
function files.read(path, kind, hash)
    local past = recorded[path] or path == "-" and read_by_path[path] -- it can be read only once
    if past and is_of(past, kind) then
        return note(path, kind, past.text)
    elseif past then
        return nil, ("%s: in the log it is of the kind %s, not %s"):format(path, past.kind, kind)
    elseif offline then
        return nil, ("%s: %s"):format(path, ABSENT)
    end
    local file, message = io.stdin, nil
    if path ~= "-" then
        file, message = whole_file.await(io.open, path, "rb")
    end
    if not file then
        newest[path] = false
        return nil, message, "UNREADABLE"
    end
    local piped = path == "-" or file:seek() == nil
    local text, problem = whole_file.await(file.read, file, "a")
    if path ~= "-" then
        file:close()
    end
    if not text then
        return nil, ("%s: %s"):format(path, problem), "UNREADABLE", problem
    elseif hash and store.sha256(text) ~= hash then
        return nil, path .. ": has just changed"
    end
    return note(path, kind, text, piped)
end

-- The names of a directory's files, one a line, sorted; nil: it is not a directory.
local function listing(path)
    local about = private.about(path, true)
    if not about or about.kind ~= "directory" then
        return nil
    end
    local found, message = directories.files(path)
    if not found then
        return nil, message
    end
    local names = {}
    for _, one in ipairs(found) do
        names[#names + 1] = one.name:sub(1, 1) ~= "." and one.name or nil
    end
    table.sort(names)
    return table.concat(names, "\n")
end

-- What is there now: the text of a file, or the listing of a directory, whose path ends in "/".
local function current_text(path, absolute)
    local at = absolute or path
    return path:sub(-1) == "/" and listing(at) or whole_file.read(at)
end

---The names of the files in a directory of data, sorted, without hidden ones. The log keeps them as
---the text of a file whose path ends in "/".
---@return string[]? names nil: it is not a directory
---@return string? message it cannot be read
function files.list(path)
    local key, names = path:gsub("/*$", "/", 1), {}
    local text, message = recorded[key] and recorded[key].text, nil
    if not text and not offline then
        text, message = listing(path)
    end
    for name in (text and note(key, "data", text) or ""):gmatch "[^\n]+" do
        names[#names + 1] = name
    end
    return text and names, message
end

---Whether the file exists, or did in the replayed run.
function files.exists(path)
    if recorded[path] or offline then
        return recorded[path] ~= nil
    end
    return whole_file.exists(path)
end

---Whether the text of a file comes from the log of the replayed run.
function files.is_recorded(path, kind)
    return recorded[path] ~= nil and is_of(recorded[path], kind)
end

---Whether all texts come from a log and no file is read.
function files.is_offline()
    return offline
end

---Records that built-in prompts are used.
function files.note_built_in(name)
    local text = require("ponder.base.builtin").text(name) -- most runs use none
    note(BUILT_IN .. "prompts/" .. name .. ".lua", "prompts", text)
end

---Loads a chunk, like loadfile.
---@return function? chunk
---@return string? message
---@return "UNREADABLE"? code
function files.load(path, kind)
    local text, message, code = files.read(path, kind)
    if not text then
        return nil, message, code
    end
    return whole_file.compile(text, "@" .. path)
end

---Runs a Lua file.
---@param handler? fun(err: any): any message handler
---@return any value what it returns
---@return any err what it raised, or why it cannot be loaded
---@return "UNREADABLE"? code
function files.run(path, kind, handler)
    local chunk, message, code = files.load(path, kind)
    if not chunk then
        return nil, message, code
    end
    local ok, value = xpcall(chunk, handler or tostring)
    if ok then
        return value
    end
    return nil, value
end

---Calls a function for every file read so far and from now on.
---@param listener fun(file: ponder.log.File)
function files.listen(listener)
    on_file = listener
    for _, file in ipairs(read_by_path) do
        listener(file)
    end
end

---Answers reads from these files from now on.
---@param past table<string, {text: string, kind: string, absolute: string?}> by path
---@param only boolean read no other file
---@param script? string path of the run's own script
function files.play(past, only, script)
    recorded, offline, script_directories = past, only, {}
    for path, file in pairs(past) do
        local directory = file.kind == "script" and tostring(file.absolute):match "^(/.*)/"
        if directory then
            table.insert(script_directories, path == script and 1 or #script_directories + 1,
                directory)
        end
    end
end

---Returns how a file has changed since it was recorded.
---@param hash string SHA-256
---@param absolute? string its absolute path, if it was a file
---@return string? problem nil if it is the same
---@return boolean? gone it no longer exists
function files.change(path, hash, absolute)
    local text
    local built_in = path:match("^" .. BUILT_IN .. "prompts/(.*)%.lua$")
    if built_in then
        text = require("ponder.base.builtin").text(built_in)
    elseif not absolute then
        return nil
    else
        text = current_text(path, absolute)
        if not text then
            return path .. " is gone", true
        end
    end
    return store.sha256(text) ~= hash and path .. " has changed" or nil
end

---Whether any file or directory read so far now has other content than when it was read last.
function files.have_changed()
    for path, text in pairs(newest) do
        if not path:find("^" .. BUILT_IN) and text ~= (current_text(path) or false) then
            return true
        end
    end
    return false
end

---The directories of the files read so far.
function files.directories()
    local found, list = {}, {}
    for path in pairs(newest) do
        local directory = path:match "^(.*/)" or "./"
        if not path:find("^" .. BUILT_IN) and not found[directory] then
            found[directory], list[#list + 1] = true, directory
        end
    end
    return list
end

---Has the modules beside the script loaded again when they are required.
function files.forget_modules()
    for name in pairs(modules) do
        package.loaded[name] = nil
    end
end

---Records the texts of the modules beside the script, which the host finds, and finds those of a
---replayed run beside its script, or beside another script that it had loaded.
function files.follow_modules()
    local beside = package.searchers[3]
    package.searchers[3] = function(name)
        local ok, loader, path = pcall(beside, name)
        if not ok and modules[name] then
            files.read(modules[name], "module") -- what it is now has an error
        end
        if not ok then
            error(loader, 0)
        elseif type(loader) == "function" then
            modules[name] = path
            return assert(files.load(path, "module")), path
        end
        return loader
    end
    if next(recorded) then
        table.insert(package.searchers, 3, function(name)
            for _, directory in ipairs(script_directories) do
                for _, ending in ipairs { ".lua", "/init.lua" } do
                    local path = ("%s/%s%s"):format(directory, name:gsub("%.", "/"), ending)
                    if files.is_recorded(path, "module") then
                        return assert(files.load(path, "module")), path
                    end
                end
            end
            return ABSENT
        end)
    end
end

return files
