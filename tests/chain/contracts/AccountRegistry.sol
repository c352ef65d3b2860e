// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the registry of accounts: its roots and the rule of their validity, in version 1
/// or 2. Everyone may call it.
contract AccountRegistry {
    event RootRecorded(uint256 indexed root, uint256 timestamp);
    event RootValidityWindowUpdated(uint256 oldWindow, uint256 newWindow);

    error UnknownRoot(uint256 root);

    bool private isVersion2;
    uint256 private newest;
    uint256 private window = 1 hours;
    mapping(uint256 => uint256) private recordedAt;
    /// Version 1 does not write it, so roots that it replaced are invalid in version 2.
    mapping(uint256 => uint256) private replacedAt;

    constructor(uint256 initialRoot, bool version2) {
        isVersion2 = version2;
        recordRoot(initialRoot);
    }

    /// Changes from version 1 to version 2.
    function upgrade() external {
        isVersion2 = true;
    }

    function setRootValidityWindow(uint256 newWindow) external {
        emit RootValidityWindowUpdated(window, newWindow);
        window = newWindow;
    }

    function recordRoot(uint256 root) public {
        if (isVersion2) replacedAt[newest] = block.timestamp;
        newest = root;
        recordedAt[root] = block.timestamp;
        emit RootRecorded(root, block.timestamp);
    }

    /// Two roots in one block.
    function recordRoots(uint256 first, uint256 second) external {
        recordRoot(first);
        recordRoot(second);
    }

    function getLatestRoot() external view returns (uint256) {
        return newest;
    }

    function currentRoot() external view returns (uint256) {
        return newest;
    }

    function getRootTimestamp(uint256 root) external view returns (uint256) {
        return recordedAt[root];
    }

    function getRootValidityWindow() external view returns (uint256) {
        return window;
    }

    function isValidRoot(uint256 root) external view returns (bool) {
        if (root == newest) return true;
        uint256 since = isVersion2 ? replacedAt[root] : recordedAt[root];
        return since != 0 && block.timestamp <= since + window;
    }

    /// A function of version 2 only: version 1 reverts without data, as for a function that it does
    /// not have.
    function getRootExpiration(uint256 root) external view returns (uint256) {
        if (!isVersion2) revert();
        if (root == newest) return 0;
        if (recordedAt[root] == 0) revert UnknownRoot(root);
        return replacedAt[root] + window;
    }
}
