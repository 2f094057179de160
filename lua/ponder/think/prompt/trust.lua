--- Trusted prompt directories: a `./prompts` is used only if the user has trusted it (`ponder
--- trust`) and its files have not changed since.
---
--- The file trusted-prompts in the state directory has a line for each: the hash of the directory's
--- Lua files and its absolute path.

local directories = require "ponder.core.directory"
local private = require "ponder.core.private"
local options = require "ponder.base.options"
local read_file = require("ponder.base.file").read
local state = require "ponder.base.state"
local store = require "ponder.core.store"

local trust = {}

local FILE = "trusted-prompts"
local MAX_FILES, MAX_BYTES = 1000, 1 << 20 -- of a directory, of a file
local GROUP_OR_OTHERS_WRITE = 18 -- 022

---Why code from a file or directory must not run: it belongs to another user than the caller or
---root, or others may write it.
---@param kind "file"|"directory"
---@param follow? boolean accept a symbolic link
---@return string? problem begins with the path
function trust.problem(path, kind, follow)
    local about, message = private.about(path, follow)
    if not about then
        return message
    elseif about.kind ~= kind then
        return ("%s: is not a %s"):format(path, kind)
    elseif not about.is_own and about.uid ~= 0 then
        return path .. ": belongs to another user"
    elseif about.mode & GROUP_OR_OTHERS_WRITE ~= 0 then
        return ("%s: others may write it: chmod go-w %s"):format(path, path)
    end
end

local function lua_files(at)
    local files, message = directories.files(at)
    local names = {}
    for _, file in ipairs(files or {}) do
        if file.name:find("%.lua$") then
            names[#names + 1] = file.name
        end
    end
    table.sort(names)
    if #names > MAX_FILES then
        return nil, ("%s: more than %d Lua files"):format(at, MAX_FILES)
    end
    return names, message
end

---@class ponder.prompt.Contents the contents of a directory
---@field path string absolute
---@field names string[] of its Lua files, sorted
---@field hashes table<string, string> SHA-256 of each
---@field hash string of all

---Reads the Lua files of a directory, if they can be trusted (trust.problem).
---@return string? message
---@return "NOT_FOUND"? code there is no such directory
function trust.read(at)
    local about, missing = private.about(at, true)
    local problem = missing or about.path:find("\n", 1, true) and at .. ": a line break in its name"
        or trust.problem(about.path, "directory")
    local names, message = nil, problem
    if not problem then
        names, message = lua_files(about.path)
    end
    if message then
        local exists = about and about.kind == "directory"
        return nil, message, not exists and "NOT_FOUND" or nil
    end
    local hashes, lines = {}, {}
    for i, name in ipairs(names) do
        local path = about.path .. "/" .. name
        local text, why
        problem = trust.problem(path, "file")
        if not problem then
            text, why = read_file(path, MAX_BYTES)
        end
        if not text then
            return nil, problem or why
        end
        hashes[name] = store.sha256(text)
        lines[i] = ("%s %q\n"):format(hashes[name], name)
    end
    return { path = about.path, names = names, hashes = hashes,
        hash = store.sha256(table.concat(lines)) }
end

---The directories that are trusted.
---@return table<string, string> hashes by absolute path
---@return string? message why the file cannot be read; a missing one is empty
function trust.list()
    local text, message, code = state.read(FILE)
    local hashes = {}
    for hash, path in (text or ""):gmatch("(%x+) (/[^\n]*)\n") do
        hashes[path] = hash
    end
    return hashes, code ~= "NOT_FOUND" and message or nil
end

local function write(hashes)
    local lines = {}
    for i, path in ipairs(options.names(hashes)) do
        lines[i] = hashes[path] .. " " .. path .. "\n"
    end
    return state.write(FILE, table.concat(lines))
end

---Trusts the current contents of a directory.
---@return string? message
---@return string? code as of `read`
function trust.add(at)
    local contents, message, code = trust.read(at)
    if not contents then
        return nil, message, code
    end
    local hashes = trust.list()
    hashes[contents.path] = contents.hash
    local ok, problem = write(hashes)
    return ok and contents, problem
end

---Stops trusting a directory, which need not exist any more.
---@return boolean? was_trusted
---@return string? message
function trust.remove(at)
    local about = private.about(at, true)
    local path = about and about.path or at
    local hashes = trust.list()
    if not hashes[path] then
        return false
    end
    hashes[path] = nil
    return write(hashes)
end

---Whether the current contents of a directory are trusted.
---@return ponder.prompt.Contents? contents
---@return string? message why they are not
function trust.check(at)
    local about = private.about(at, true)
    local known, problem = trust.list()
    local wanted = about and known[about.path]
    if not wanted then
        return nil, problem or at .. ": is not trusted"
    end
    local contents, message = trust.read(at)
    if not contents then
        return nil, message
    elseif contents.hash ~= wanted then
        return nil, at .. ": has changed since it was trusted"
    end
    return contents
end

return trust
