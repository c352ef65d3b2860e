// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the identity manager of a legacy tree: its roots, their order and their validity,
/// without identities. Everyone may call it.
contract IdentityManager {
    enum TreeChange { Insertion, Deletion }

    struct RootInfo {
        uint256 root;
        uint128 supersededTimestamp;
        bool isValid;
    }

    event TreeChanged(uint256 indexed preRoot, TreeChange indexed kind, uint256 indexed postRoot);
    event RootHistoryExpirySet(uint256 indexed oldExpiry, uint256 indexed newExpiry);

    uint256 private newest;
    uint256 private expiry = 1 hours;
    mapping(uint256 => uint128) private supersededAt;

    /// The first root is in no event.
    constructor(uint256 initialRoot) {
        newest = initialRoot;
    }

    function pushRoot(uint256 root) external {
        change(TreeChange.Insertion, root);
    }

    /// Makes an older root the newest again, as the deletion of the last inserted identity does.
    function returnToRoot(uint256 root) external {
        change(TreeChange.Deletion, root);
    }

    function setRootHistoryExpiry(uint256 newExpiry) external {
        emit RootHistoryExpirySet(expiry, newExpiry);
        expiry = newExpiry;
    }

    function latestRoot() external view returns (uint256) {
        return newest;
    }

    function getRootHistoryExpiry() external view returns (uint256) {
        return expiry;
    }

    function queryRoot(uint256 root) external view returns (RootInfo memory) {
        if (root == newest) return RootInfo(root, 0, true);
        uint128 since = supersededAt[root];
        if (since == 0) return RootInfo(0, 0, false);
        return RootInfo(root, since, block.timestamp - since <= expiry);
    }

    function change(TreeChange kind, uint256 root) private {
        supersededAt[newest] = uint128(block.timestamp);
        emit TreeChanged(newest, kind, root);
        newest = root;
    }
}
