--- Whole files. A stop of the run ends a wait for a pipe or a terminal, and is raised there.

local core = require "ponder.core.task"
local private = require "ponder.core.private"

local file = {}

local load = load -- a script may replace it

-- A chunk with a variable to close makes no tail calls, which would hide the line of an error in
-- the arguments of `return search.run { ... }`.
local NO_TAIL_CALLS = "local _ponder_ <close> = nil "

---Compiles the text of a script. Like Lua, skips a byte order mark and a first line that begins
---with `#`; refuses binary code.
---@param name string of the chunk: "@FILE"
---@param env? table default: the globals
---@return function? chunk
---@return string? message
function file.compile(text, name, env)
    text = text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
    local is_binary = text:find "^\27"
    return load(is_binary and text or NO_TAIL_CALLS .. text, name, "t", env or _G)
end

---Whether a path exists. Unlike opening it, this does not wait for the writer of a pipe.
function file.exists(path)
    return private.about(path, true) ~= nil
end

---Calls a function that opens or reads a file and may wait; raises a stop of the run that ends the
---wait, or that came before.
---@param f function returns nil if it fails
---@return any value what `f` returned
function file.await(f, ...)
    core.raise_stop()
    local results = table.pack(f(...))
    if results[1] == nil then
        core.raise_stop()
    end
    return table.unpack(results, 1, results.n)
end

---The text of a file.
---@param max_bytes? integer longer files are refused, unread beyond that
---@return string? text
---@return string? message with the path
---@return "UNREADABLE"? code
function file.read(path, max_bytes)
    local opened <close>, message = file.await(io.open, path, "rb")
    if not opened then
        return nil, message, "UNREADABLE"
    end
    local text, problem = file.await(opened.read, opened, max_bytes and max_bytes + 1 or "a")
    if problem then
        return nil, ("%s: %s"):format(path, problem), "UNREADABLE"
    elseif max_bytes and text and #text > max_bytes then
        return nil, ("%s: it exceeds %d bytes"):format(path, max_bytes)
    end
    return text or ""
end

---Writes a file whole or not at all: beside it, then renames it. What is not a regular file, such
---as a pipe or /dev/stdout, is written directly.
---@param write fun(out: {write: fun(self, ...)}) need not look whether `out` could be written
---@return boolean? done
---@return string? message with the path
---@return string? code
function file.replace(path, write)
    local about = private.about(path, true)
    local target = about and about.path or path
    local beside = (not about or about.kind == "file") and target .. "-new" or nil
    local out, message, code = private.open(beside or target)
    if not out then
        return nil, path .. message:sub(#(beside or target) + 1), code
    end
    local _ <close> = beside and setmetatable({}, { __close = function()
        os.remove(beside) -- it is still there if a write has failed or `write` raised
    end }) or nil
    local ok, problem = true, nil
    write { write = function(_, ...)
        if ok then
            ok, problem = out:write(...)
        end
    end }
    local closed, why = out:close()
    if ok and closed and beside then
        ok, problem = os.rename(beside, target)
    end
    if not ok or not closed then
        return nil, ("%s: %s"):format(path, problem or why), "IO"
    end
    return true
end

return file
