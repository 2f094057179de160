--- Whole files.

local file = {}

---The text of a file.
---@param path string
---@return string? text
---@return string? message with the path
function file.read(path)
    local opened <close>, message = io.open(path, "rb")
    if not opened then
        return nil, message
    end
    local text, problem = opened:read "a"
    if problem then
        return nil, ("%s: %s"):format(path, problem)
    end
    return text or ""
end

return file
