--- Whole files.

local file = {}

---The text of a file.
---@param path string
---@param max_bytes? integer longer files are refused, unread beyond that
---@return string? text
---@return string? message with the path
function file.read(path, max_bytes)
    local opened <close>, message = io.open(path, "rb")
    if not opened then
        return nil, message
    end
    local text, problem = opened:read(max_bytes and max_bytes + 1 or "a")
    if problem then
        return nil, ("%s: %s"):format(path, problem)
    elseif max_bytes and text and #text > max_bytes then
        return nil, ("%s: it exceeds %d bytes"):format(path, max_bytes)
    end
    return text or ""
end

---Whether a file can be read.
---@param path string
---@return boolean
function file.exists(path)
    local opened <close> = io.open(path, "rb")
    return opened ~= nil
end

return file
